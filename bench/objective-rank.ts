/**
 * Does an objective know which suffix slows decoding down? Suffixes are decoded for real, and their accepted lengths are
 * compared, by rank, with what each objective says of them: 1 is a perfect guide, 0 is none. First random suffixes;
 * then single edits of the slowest of those, scored along the clean answer, as a search does, and along the slowest
 * one's own answer.
 * Run: npm run bench:objective-rank [-- PROMPTS_PER_SET [SUFFIXES [THREADS [DRAFTER ...]]]]
 */
import { join } from 'node:path';
import { listAllowedTokens } from '../src/audit/allowed-tokens.js';
import type { AuditPrompt } from '../src/audit/audit-prompt.js';
import { joinPrompt, keepRoundTrips, preparePrompt } from '../src/audit/audit-prompt.js';
import { drawRandomSuffix } from '../src/audit/controls.js';
import { createObjective, objectiveNames } from '../src/audit/objectives.js';
import { readPromptState } from '../src/audit/prompt-state.js';
import { Scorer } from '../src/audit/scoring.js';
import type { SearchPrograms } from '../src/audit/search-programs.js';
import { compileSearch } from '../src/audit/search-programs.js';
import { createRandom } from '../src/core/random.js';
import { findDrafterFolder } from '../src/decode/bundled-drafters.js';
import { bundledTarget, packageRoot } from '../src/decode/bundled-models.js';
import { always, decodeSpeculative } from '../src/decode/speculative.js';
import { openTarget } from '../src/decode/target.js';
import type { Drafter } from '../src/draft/drafter.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompt-set.js';
import { printTable } from './stopwatch.js';

const [perSet = '2', count = '36', threads = '2', ...named] = process.argv.slice(2);
const drafters = named.length > 0 ? named : ['sps', 'eagle3'];
const settings = { window: 20, suffixLength: 20, divergence: 'clean-to-suffixed' } as const;
const maxNewTokens = 96;

const runtime = createOnnxRuntime({ threads: Number(threads) });
const target = await openTarget(bundledTarget, { runtime });
const allowed = listAllowedTokens(target.tokenizer, target.model.configuration.vocabularySize, {
  allowNonAscii: false,
});
const prompts: AuditPrompt[] = [];
for (const set of ['mt-bench', 'humaneval', 'gsm8k']) {
  const all = await loadPrompts(set, { folder: join(packageRoot, '../shared/data') });
  for (const prompt of all.slice(0, Number(perSet)))
    prompts.push(await preparePrompt(target, prompt, { ...settings, maxNewTokens, chat: true }));
}

interface Measured {
  readonly suffixIds: readonly number[];
  readonly length: number;
  readonly answerIds: readonly number[];
}

/** What is said of one kind of suffix, prompt by prompt. */
class Ranking {
  private readonly correlations = objectiveNames.map((): number[] => []);
  private readonly lengths: number[][] = [];

  constructor(readonly kind: string) {}

  add(scores: readonly (readonly number[])[] /* [objective][suffix] */, measured: readonly Measured[]): void {
    const lengths = measured.map(({ length }) => length);
    this.lengths.push(lengths);
    scores.forEach((values, index) => this.correlations[index]!.push(-correlateRanks(values, lengths)));
  }

  describe(): string[] {
    return [
      this.kind,
      ...this.correlations.map((values) => mean(values).toFixed(2)),
      mean(this.lengths.flat()).toFixed(2),
      mean(this.lengths.map((lengths) => Math.min(...lengths))).toFixed(2),
    ];
  }
}

const rows = [['drafter', 'suffixes', ...objectiveNames, 'accepted length', 'lowest, mean over prompts']];
for (const id of drafters) {
  const drafter = await loadDrafter(findDrafterFolder(id), {
    target: target.model,
    tokenizer: target.tokenizer,
  });
  target.model.setTaps(drafter.taps);
  const models = { target: target.model, drafter };
  const programs: SearchPrograms[] = [];
  for (const name of objectiveNames)
    programs.push(await compileSearch(models, createObjective(name, 4), settings));
  const atRandom = new Ranking('random');
  const edited = new Ranking('edits of the slowest');
  const alongOwn = new Ranking('the same, along its answer');
  for (const prompt of prompts) {
    const random = createRandom(1, 'objective-rank', prompt.id);
    const state = await readPromptState(models, prompt.beforeIds);
    /** [objective][suffix] degradation */
    const scoreAll = async (measured: readonly Measured[], answerIds: readonly number[]) => {
      const along = { ...prompt, answer: { ...prompt.answer, tokenIds: answerIds } };
      const candidates = measured.map(({ suffixIds }) => ({ suffixIds, first: 0 }));
      const scores: number[][] = [];
      for (const compiled of programs) {
        const scorer = new Scorer(target, models, compiled, along, state);
        const scored = await scorer.score(candidates[0]!.suffixIds, candidates);
        scores.push(scored.map(({ degradation }) => degradation));
      }
      return scores;
    };
    const drawn: Measured[] = [];
    while (drawn.length < Number(count))
      drawn.push(
        await decode(
          drafter,
          prompt,
          await drawRandomSuffix(target, prompt, allowed, settings.suffixLength, random),
        ),
      );
    atRandom.add(await scoreAll(drawn, prompt.answer.tokenIds), drawn);

    const slowest = drawn.reduce((low, entry) => (entry.length < low.length ? entry : low));
    const edits: Measured[] = [];
    while (edits.length < Number(count)) {
      const suffixIds = [...slowest.suffixIds];
      suffixIds[random.nextInteger(suffixIds.length)] = allowed[random.nextInteger(allowed.length)]!;
      const [survives] = await keepRoundTrips(target, prompt, [suffixIds]);
      if (survives === true) edits.push(await decode(drafter, prompt, suffixIds));
    }
    edited.add(await scoreAll(edits, prompt.answer.tokenIds), edits);
    if (slowest.answerIds.length >= settings.window)
      alongOwn.add(await scoreAll(edits, slowest.answerIds), edits);
  }
  rows.push(...[atRandom, edited, alongOwn].map((ranking) => [id, ...ranking.describe()]));
}
await runtime.dispose();
console.log(
  `${prompts.length} prompts, ${count} suffixes of each kind; rank correlation, mean over prompts\n`,
);
printTable(rows);

async function decode(
  drafter: Drafter,
  prompt: AuditPrompt,
  suffixIds: readonly number[],
): Promise<Measured> {
  const { acceptance, tokenIds } = await decodeSpeculative(target.model, drafter, {
    promptIds: joinPrompt(prompt, suffixIds),
    maxNewTokens,
    sampling: { temperature: 0 },
    seed: 0,
    stopIds: target.stopIds,
    policy: always({ kind: 'chain', length: 4 }),
  });
  return { suffixIds, length: acceptance.meanAcceptedLength, answerIds: tokenIds };
}

function correlateRanks(left: readonly number[], right: readonly number[]): number {
  const [x, y] = [ranksOf(left), ranksOf(right)];
  const centre = (left.length - 1) / 2;
  let shared = 0;
  let own = 0;
  x.forEach((rank, index) => {
    shared += (rank - centre) * (y[index]! - centre);
    own += (rank - centre) ** 2;
  });
  return shared / own;
}

function ranksOf(values: readonly number[]): number[] {
  const order = values.map((_, index) => index).sort((left, right) => values[left]! - values[right]!);
  const ranks: number[] = [];
  order.forEach((index, rank) => (ranks[index] = rank));
  return ranks;
}

function mean(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0) / values.length;
}
