/**
 * Scores many suffixes. All share the prompt's caches; candidates with the same first edit also share the base's rows
 * before it.
 */
import { runWithLimit } from '../../core/promises.js';
import { type NamedValues, bufferOf, float32, floatsOf, int32 } from '../../runtime/program.js';
import type { Target } from '../../decode/target.js';
import { type AuditPrompt, joinPrompt, keepRoundTrips } from '../arms/audit-prompt.js';
import {
  type Candidate,
  keyOf,
  rankAlong,
  type RankedTokens,
  rankingInputs,
  readRanking,
  type SearchDirection,
  type SuffixGradients,
  type TokenRanking,
} from './candidates.js';
import { projectGradient } from './projection.js';
import { fillPasses, type FullPass, groupByBeginning, PassRows, roundCopies } from './pass-rows.js';
import { answerInputs, countDraftsAlong, walkAnswer, walkWithLookups } from './held-answer.js';
import { type PromptState, extendState, passInputs, releaseState } from './prompt-state.js';
import { type SearchModels, type SearchPrograms, declaredOf, runDeclared } from './search-programs.js';
import type { AnswerScore, Scored, SuffixScorer } from './search-problem.js';
import { acceptedLengthOf } from '../../measure/statistics.js';

export class Scorer implements SuffixScorer {
  readonly answerLength: number;
  private readonly answer: NamedValues;
  private readonly isOnDevice: boolean;
  private newest: { readonly key: string; readonly state: PromptState } | undefined;

  constructor(
    private readonly target: Target,
    private readonly models: SearchModels,
    private readonly programs: SearchPrograms,
    private readonly prompt: AuditPrompt,
    private readonly state: PromptState,
    private readonly passRows = new PassRows(models.target.runtime),
  ) {
    this.answerLength = prompt.windowIds.length;
    this.answer = answerInputs(prompt.windowIds, models.drafter.graph?.targetTokens);
    this.isOnDevice = models.target.runtime.rowsPerPass !== undefined;
  }

  keepRoundTrips(suffixes: readonly (readonly number[])[]): Promise<boolean[]> {
    return keepRoundTrips(this.target, this.prompt, suffixes);
  }

  async score(base: readonly number[], candidates: readonly Candidate[]): Promise<Scored[]> {
    if (candidates.length === 0) return [];
    const groups = groupByBeginning(candidates, this.fullPass(base.length));
    // Reading the base must save more rows than it costs.
    const saved = groups.reduce((total, group) => total + group.length * group[0]!.first, 0);
    const isShared = saved > base.length;
    const shared = isShared ? await this.readBase(base) : this.state;
    const passes = groups.map((group) => () => {
      const first = isShared ? group[0]!.first : 0;
      const rows = this.rowsBehind(first, base.length);
      const score = (some: readonly Candidate[]) => this.scoreGroup(shared, base, first, some);
      return this.passRows.runAll(group, rows, score);
    });
    // A device computes the next pass while the host reads the last results.
    const mayOverlap = this.isOnDevice && this.models.drafter.graph !== undefined;
    return (await runWithLimit(passes, mayOverlap ? 2 : 1)).flat();
  }

  private fullPass(suffixLength: number): FullPass | undefined {
    if (!this.isOnDevice) return undefined;
    return fillPasses((first) => this.passRows.countCopies(this.rowsBehind(first, suffixLength)));
  }

  /** A step scores single and merged edits on the same base, so its state is kept. */
  private async readBase(base: readonly number[]): Promise<PromptState> {
    const key = keyOf(base);
    const earlier = this.newest;
    if (earlier?.key === key) return earlier.state;
    // Its caches are overwritten: after a failure they are invalid.
    if (earlier !== undefined) this.newest = { ...earlier, key: '' };
    const state = await extendState(this.models, this.state, base, earlier?.state);
    this.newest = { key, state };
    return state;
  }

  /** Frees the prompt's caches. */
  dispose(): void {
    if (this.newest !== undefined) releaseState(this.newest.state);
    releaseState(this.state);
  }

  private restIds(): number[] {
    return [...this.prompt.afterIds, ...this.prompt.windowIds.slice(0, -1)];
  }

  private rowsBehind(first: number, suffixLength: number): number {
    return suffixLength - first + this.prompt.afterIds.length + this.prompt.windowIds.length;
  }

  private async scoreGroup(
    shared: PromptState,
    base: readonly number[],
    first: number,
    group: readonly Candidate[],
  ): Promise<Scored[]> {
    const before = first === 0 ? this.state.lastToken : base[first - 1]!;
    const rest = this.restIds();
    const rows = this.rowsBehind(first, base.length);
    const copies = this.isOnDevice ? roundCopies(group.length) : group.length;
    const tokens = new Int32Array(copies * rows);
    group.forEach(({ suffixIds }, index) => {
      tokens.set([before, ...suffixIds.slice(first), ...rest], index * rows);
    });
    const pastLength = this.state.targetCache.pastLength + first;
    const outputs = await runDeclared(await this.programs.scores(), {
      tokens: int32(tokens, [copies, rows]),
      ...this.answerInputs(),
      ...passInputs(shared, this.models, rows, pastLength),
    });
    const divergence = floatsOf(outputs, 'divergence');
    const scored: Scored[] = [];
    for (const [index, candidate] of group.entries()) {
      const drafts = await this.readDrafts(outputs, index, candidate);
      const answer = this.readAnswer(outputs, index);
      scored.push({ ...candidate, divergence: divergence[index]!, ...drafts, ...answer });
    }
    return scored;
  }

  /** Without a graph: by drafting; the objective is passes per token. */
  private async readDrafts(
    outputs: NamedValues,
    index: number,
    { suffixIds }: Candidate,
  ): Promise<Pick<Scored, 'degradation' | 'length'>> {
    const { prompt, models } = this;
    const { draftLevels } = this.programs.settings;
    const { length } = prompt.windowIds;
    if (models.drafter.graph === undefined) {
      const promptIds = joinPrompt(prompt, suffixIds);
      const counts = await countDraftsAlong(models.drafter, promptIds, prompt.windowIds, draftLevels);
      const accepted = acceptedLengthOf(counts);
      return { degradation: 1 / accepted, length: accepted };
    }
    const table = Array.from({ length: draftLevels }, (_, level) =>
      rowOf(outputs, `accepted${level}`, index, length - 1 - level),
    );
    const { lookups = [] } = models.drafter;
    const { temperature } = this.programs.settings;
    const promptIds = joinPrompt(prompt, suffixIds);
    const counts =
      lookups.length === 0
        ? walkAnswer(table, length)
        : walkWithLookups(table, lookups, promptIds, prompt.windowIds, temperature);
    return {
      degradation: floatsOf(outputs, 'degradation')[index]!,
      length: acceptedLengthOf(counts),
    };
  }

  private readAnswer(
    outputs: NamedValues,
    index: number,
  ): Pick<AnswerScore, 'followed' | 'answerMarginLoss'> {
    const { length } = this.prompt.windowIds;
    const left = rowOf(outputs, 'follows', index, length).indexOf(0);
    return {
      followed: left < 0 ? length : left,
      answerMarginLoss: floatsOf(outputs, 'answerMarginLoss')[index]!,
    };
  }

  private answerInputs(): NamedValues {
    const { windowIds, cleanLogits } = this.prompt;
    const { vocabularySize } = this.models.target.configuration;
    return { clean: float32(cleanLogits, [1, windowIds.length, vocabularySize]), ...this.answer };
  }

  /** With respect to the suffix's one-hot rows. */
  async differentiate(
    suffixIds: readonly number[],
  ): Promise<SuffixGradients & Pick<Scored, 'degradation' | 'divergence'>> {
    const outputs = await runDeclared(await this.programs.gradients(), this.gradientInputs(suffixIds));
    return {
      degradation: floatsOf(outputs, 'degradation')[0]!,
      divergence: floatsOf(outputs, 'divergence')[0]!,
      degradationGradient: floatsOf(outputs, 'degradationGradient'),
      divergenceGradient: floatsOf(outputs, 'divergenceGradient'),
    };
  }

  async differentiateMarginLoss(suffixIds: readonly number[]): Promise<Float32Array> {
    const outputs = await runDeclared(
      await this.programs.marginLossGradient(),
      this.gradientInputs(suffixIds),
    );
    return floatsOf(outputs, 'marginLossGradient');
  }

  async rankTokens(
    suffixIds: readonly number[],
    towards: SearchDirection,
    { allowed, count }: TokenRanking,
  ): Promise<RankedTokens> {
    const { programs, models } = this;
    if (towards.kind === 'degrade' && towards.projection.kind === 'subspace') {
      const gradients = await this.differentiate(suffixIds);
      const positions = await this.differentiatePositions(suffixIds);
      const direction = projectGradient(gradients.degradationGradient, positions, towards.projection);
      return rankAlong(suffixIds, direction, gradients, { allowed, count });
    }
    const restoresAnswer = towards.kind === 'restoreAnswer';
    const inputs = this.gradientInputs(suffixIds);
    const program = await (restoresAnswer ? programs.marginLossGradient() : programs.gradients());
    const [up, stay] = restoresAnswer
      ? (['marginLossGradient', 'marginLossGradient'] as const)
      : (['degradationGradient', 'divergenceGradient'] as const);
    const gradients = await program.run(declaredOf(program, inputs), { [up]: 'runtime', [stay]: 'runtime' });
    const { vocabularySize } = models.target.configuration;
    const ranking = await programs.ranking(Math.min(count, vocabularySize));
    const outputs = await ranking.run({
      up: gradients[up]!,
      stay: gradients[stay]!,
      oneHot: inputs.oneHot!,
      ...rankingInputs(towards, allowed, vocabularySize),
    });
    for (const name of new Set([up, stay])) bufferOf(gradients, name).free();
    const ranked = readRanking(outputs, suffixIds.length);
    return restoresAnswer ? { ...ranked, before: 0, after: 0 } : ranked;
  }

  /** One copy of the sequence per position, some at a time. */
  async differentiatePositions(suffixIds: readonly number[]): Promise<Float32Array[]> {
    const program = await this.programs.positionGradients();
    const { vocabularySize, hiddenSize } = this.models.target.configuration;
    const window = this.prompt.windowIds.length;
    const rows = this.rowsBehind(0, suffixIds.length);
    const inputs = {
      tokens: int32([this.state.lastToken, ...suffixIds, ...this.restIds()]),
      ...this.answerInputs(),
      ...passInputs(this.state, this.models, rows),
    };
    const width = suffixIds.length * vocabularySize;
    const positions = Array.from({ length: window }, (_, position) => position);
    return this.passRows.runAll(positions, rows, async (some) => {
      const copies = some.length;
      const chosen = new Float32Array(copies * window);
      some.forEach((position, copy) => (chosen[copy * window + position] = 1));
      const outputs = await runDeclared(program, {
        ...inputs,
        position: float32(chosen, [copies, window, 1]),
        shift: float32(new Float32Array(copies * rows * hiddenSize), [copies, rows, hiddenSize]),
      });
      const all = floatsOf(outputs, 'divergenceGradient');
      return some.map((_, copy) => all.subarray(copy * width, (copy + 1) * width));
    });
  }

  private gradientInputs(suffixIds: readonly number[]): NamedValues {
    const { vocabularySize } = this.models.target.configuration;
    const oneHot = new Float32Array(suffixIds.length * vocabularySize);
    suffixIds.forEach((token, row) => (oneHot[row * vocabularySize + token] = 1));
    return {
      oneHot: float32(oneHot, [suffixIds.length, vocabularySize]),
      first: int32([this.state.lastToken]),
      rest: int32(this.restIds()),
      ...this.answerInputs(),
      ...passInputs(this.state, this.models, this.rowsBehind(0, suffixIds.length)),
    };
  }
}

function rowOf(outputs: NamedValues, name: string, index: number, width: number): Float32Array {
  return floatsOf(outputs, name).subarray(index * width, (index + 1) * width);
}
