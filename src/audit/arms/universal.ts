/**
 * One suffix for many prompts: scores and gradients are averages, a candidate must survive in every prompt, and the
 * result is also measured on held-out prompts.
 */
import { createRandom } from '../../core/random.js';
import { Engine } from '../../decode/engine.js';
import { type StepCounts, testSignedRanks } from '../../measure/statistics.js';
import type { UnitName } from '../units/audit-unit.js';
import { type AuditPrompt, keepRoundTrips, preparePrompt } from './audit-prompt.js';
import { countAlongAnswer, poolLengths, splitPrompts } from './transfer.js';
import { type Candidate, rankAlong, type RankedTokens, rankTokens } from '../search/candidates.js';
import { drawRandomSuffix } from './controls.js';
import type { DrafterAudit } from './drafter-audit.js';
import { decodeFreely, judgeAnswer } from './measure-arm.js';
import { type Projection, projectGradient } from '../search/projection.js';
import { readPromptState } from '../search/prompt-state.js';
import type { TracePoint, UniversalResult, UniversalSplit, UniversalSuffix } from '../result.js';
import { Scorer } from '../search/scoring.js';
import { searchSuffix } from '../search/search.js';
import type { Scored, SearchOutcome, SuffixScorer } from '../search/search-problem.js';
import { attackSearch, undirectedSearch } from '../settings.js';
import { countClasses } from '../summary.js';

export const universalKey = (drafter: string): string => `${drafter}/universal`;

export const universalName = (drafter: string): UnitName => ({ drafter, prompt: 'all', arm: 'universal' });

interface PreparedPrompt {
  readonly prompt: AuditPrompt;
  readonly scorer: Scorer;
}

/** On the prompts of the request; undefined if no suffix is inside the bounds. */
export async function searchUniversal(audit: DrafterAudit): Promise<UniversalResult | undefined> {
  const prepared = await prepareAll(audit);
  try {
    return await searchWith(audit, prepared);
  } finally {
    for (const { scorer } of prepared) scorer.dispose();
  }
}

async function searchWith(
  audit: DrafterAudit,
  prepared: readonly PreparedPrompt[],
): Promise<UniversalResult | undefined> {
  const { target, request, allowed, id } = audit;
  const { settings, seed } = request;
  const { trained, heldOut } = splitPrompts(prepared, seed);
  const [first] = trained;
  if (first === undefined) return undefined;
  const random = createRandom(seed, 'universal', id);
  const start = await drawRandomSuffix(target, first.prompt, allowed, settings.suffixLength, random);
  const problem = {
    scorer: combineScorers(trained.map(({ scorer }) => scorer)),
    ...{ allowed, starts: [start], random, signal: audit.signal },
  };
  const measure = async ({ finalists, scoredCandidates }: SearchOutcome): Promise<UniversalSuffix | null> => {
    const [winner] = finalists;
    if (winner === undefined) return null;
    return {
      suffix: target.tokenizer.decode(winner.suffixIds),
      scoredCandidates,
      trained: await measureSplit(audit, trained, winner.suffixIds),
      heldOut: heldOut.length === 0 ? null : await measureSplit(audit, heldOut, winner.suffixIds),
    };
  };
  const onStep = (point: TracePoint): void => {
    audit.onStep(universalName(id), point);
  };
  const attack = await searchSuffix({ ...problem, onStep }, attackSearch(settings));
  const found = await measure(attack);
  if (found === null) return undefined;
  const match = { scoredCandidates: attack.scoredCandidates, decodedSuffixes: 1 };
  const control = { ...problem, random: random.fork('undirected'), match };
  const undirected = await measure(await searchSuffix(control, undirectedSearch(settings)));
  return { drafter: id, ...found, undirected };
}

async function prepareAll(audit: DrafterAudit): Promise<PreparedPrompt[]> {
  const { target, drafter, request, passRows } = audit;
  const { settings, seed } = request;
  const programs = audit.programs();
  const models = { target: target.model, drafter };
  const prepared: PreparedPrompt[] = [];
  for (const given of request.prompts) {
    const prompt = await preparePrompt(target, given, { ...settings, seed });
    const state = await readPromptState(models, prompt.beforeIds);
    prepared.push({ prompt, scorer: new Scorer(target, models, programs, prompt, state, passRows) });
  }
  return prepared;
}

async function measureSplit(
  audit: DrafterAudit,
  prompts: readonly PreparedPrompt[],
  suffixIds: readonly number[],
): Promise<UniversalSplit> {
  const { target, drafter, policy, request } = audit;
  const { settings, seed } = request;
  const survivors: { readonly prompt: AuditPrompt; readonly divergence: number }[] = [];
  for (const { prompt, scorer } of prompts) {
    const [survives] = await keepRoundTrips(target, prompt, [suffixIds]);
    if (survives !== true) continue;
    const [score] = await scorer.score(suffixIds, [{ suffixIds, first: 0 }]);
    survivors.push({ prompt, divergence: score!.divergence });
  }
  const engine = new Engine();
  const countAlong = (prompt: AuditPrompt, ids: readonly number[]): Promise<StepCounts> =>
    engine.run(() => countAlongAnswer(audit, prompt, ids, engine));
  const measure = async ({ prompt, divergence }: (typeof survivors)[number]) => {
    const setup = { target, drafter, policy, prompt, settings, seed };
    const [free, clean, attacked] = await Promise.all([
      engine.run(() => decodeFreely(setup, suffixIds, { engine })),
      countAlong(prompt, []),
      countAlong(prompt, suffixIds),
    ]);
    return { clean, attacked, divergence, kept: judgeAnswer(prompt, free, settings).keptClass };
  };
  const measured = await Promise.all(survivors.map(measure));
  const lengths = (side: 'clean' | 'attacked'): number[] =>
    measured.map((entry) => poolLengths([entry[side]]));
  return {
    n: measured.length,
    lostInText: prompts.length - measured.length,
    cleanAcceptedLength: poolLengths(measured.map(({ clean }) => clean)),
    attackedAcceptedLength: poolLengths(measured.map(({ attacked }) => attacked)),
    divergence: measured.reduce((total, entry) => total + entry.divergence, 0) / Math.max(1, measured.length),
    kept: countClasses(measured.map(({ kept }) => kept)),
    pValue: testSignedRanks(lengths('attacked'), lengths('clean'), 'less').pValue,
  };
}

export function combineScorers(scorers: readonly Scorer[]): SuffixScorer {
  const count = scorers.length;
  const collect = async <Result>(read: (scorer: Scorer) => Promise<Result>): Promise<Result[]> => {
    const all: Result[] = [];
    for (const scorer of scorers) all.push(await read(scorer));
    return all;
  };
  return {
    answerLength: 1,
    async score(base: readonly number[], candidates: readonly Candidate[]): Promise<Scored[]> {
      const order = new Map(candidates.map((candidate, index) => [candidate.suffixIds, index]));
      const totals = candidates.map((candidate) => ({
        ...candidate,
        degradation: 0,
        divergence: 0,
        length: 0,
        followed: 0,
        answerMarginLoss: 0,
      }));
      for (const scorer of scorers) {
        for (const scored of await scorer.score(base, candidates)) {
          const total = totals[order.get(scored.suffixIds)!]!;
          total.degradation += scored.degradation / count;
          total.divergence += scored.divergence / count;
          total.length += scored.length / count;
          total.answerMarginLoss += scored.answerMarginLoss / count;
          // As a share of each prompt's own answer.
          total.followed += scored.followed / scorer.answerLength / count;
        }
      }
      return totals;
    },
    async rankTokens(suffixIds, towards, ranking): Promise<RankedTokens> {
      if (towards.kind === 'restoreAnswer') {
        const all = await collect((scorer) => scorer.differentiateMarginLoss(suffixIds));
        const promising = rankTokens(suffixIds, negate(average(all)), ranking);
        return { promising, before: 0, after: 0 };
      }
      const all = await collect((scorer) => scorer.differentiate(suffixIds));
      const degradationGradient = average(all.map((gradients) => gradients.degradationGradient));
      const divergenceGradient = average(all.map((gradients) => gradients.divergenceGradient));
      const project = async (projection: Projection): Promise<Float32Array> => {
        const positions = (scorer: Scorer) => scorer.differentiatePositions(suffixIds);
        const isSubspace = projection.kind === 'subspace';
        const preservation = isSubspace ? (await collect(positions)).flat() : [divergenceGradient];
        return projectGradient(degradationGradient, preservation, projection);
      };
      const isRestoring = towards.kind === 'restoreDistribution';
      const direction = isRestoring ? negate(divergenceGradient) : await project(towards.projection);
      return rankAlong(suffixIds, direction, { degradationGradient, divergenceGradient }, ranking);
    },
    async keepRoundTrips(suffixes): Promise<boolean[]> {
      const kept = await collect((scorer) => scorer.keepRoundTrips(suffixes));
      return suffixes.map((_, index) => kept.every((survives) => survives[index]));
    },
  };
}

const negate = (vector: Float32Array): Float32Array => vector.map((value) => -value);

function average(vectors: readonly Float32Array[]): Float32Array {
  const total = new Float32Array(vectors[0]!.length);
  for (const vector of vectors) vector.forEach((value, index) => (total[index]! += value / vectors.length));
  return total;
}
