/**
 * The search (Mistletoe, arXiv 2605.14005, on GCG's coordinate steps): follow the degradation gradient with the
 * target's directions projected out, score the most promising changes, veto those that move the target too far,
 * continue from the best. A suffix outside the bounds first returns inside. One pass gives objective, divergence,
 * whether the target follows the clean answer, and the accepted length along it; only finalists are decoded.
 * `unguided`: random changes instead of gradients, for drafters without a graph. `undirected`: random numbers instead
 * of gradient and objective with the same effort, to measure what trying alone reaches.
 */
import type { Candidate } from './candidates.js';
import { mergeEdits, planChanges, proposeCandidates } from './candidates.js';
import type { Scored, SearchOutcome, SearchProblem, SearchSettings } from './search-problem.js';
import { isInside } from './search-problem.js';
import { cosine, projectGradient } from './projection.js';
import type { TracePoint } from '../result.js';
import { SuffixBuffer } from './suffix-buffer.js';
import type { SearchDirection, RankedTokens } from './steepest-tokens.js';
import { rankTokens } from './steepest-tokens.js';

export async function searchSuffix(problem: SearchProblem, settings: SearchSettings): Promise<SearchOutcome> {
  const { scorer, random } = problem;
  const buffer = new SuffixBuffer(settings, scorer.answerLength, random.fork('blind'));
  const trace: TracePoint[] = [];
  let current = await tryStarts(problem, buffer);
  let stalled = 0;
  let ranked: (RankedTokens & { readonly from: Scored }) | undefined;

  for (let step = 1; step <= settings.steps; step++) {
    if (problem.signal?.aborted === true) return { ...buffer.outcome(), trace, interrupted: true };
    if (stalled >= settings.patience) {
      current = buffer.takeNext() ?? current;
      stalled = 0;
    }
    // 1. Find the direction, unless the last step gained nothing.
    if (ranked?.from !== current)
      ranked = { from: current, ...(await chooseTokens(problem, settings, current)) };
    const { promising, before, after } = ranked;
    // 2. Score the most promising changes that survive as text.
    const changes = planChanges(step, settings.steps, settings.moves);
    const proposed = proposeCandidates(current.suffixIds, promising, { ...settings, changes }, random);
    const scored = await tryCandidates(problem, buffer, current, proposed);
    // 3. Merge several good changes.
    const improving = buffer.rank(scored, current).filter((candidate) => buffer.isGain(candidate, current));
    const merged = mergeEdits(current.suffixIds, improving, settings.merges);
    const all = [...scored, ...(await tryCandidates(problem, buffer, current, merged))];
    // 4. Continue from the best if it is better.
    const [best] = buffer.rank(all, current);
    const isBetter = best !== undefined && buffer.isGain(best, current);
    stalled = isBetter ? 0 : stalled + 1;
    if (isBetter) current = buffer.take(best);
    const shortest = buffer.outcome().finalists[0];
    const point = {
      step,
      degradation: current.degradation,
      divergence: current.divergence,
      acceptedLength: shortest?.length ?? null,
      cosineBefore: before,
      cosineAfter: after,
      candidates: all.length,
      vetoed: all.filter((candidate) => !isInside(candidate, settings, scorer.answerLength)).length,
    };
    trace.push(point);
    problem.onStep?.(point);
  }
  return { ...buffer.outcome(), trace, interrupted: false };
}

async function tryStarts(problem: SearchProblem, buffer: SuffixBuffer): Promise<Scored> {
  const starts = buffer.unseen(problem.starts.map((suffixIds) => ({ suffixIds, first: 0 })));
  buffer.offer(await problem.scorer.score(problem.starts[0]!, starts));
  return buffer.takeNext()!;
}

async function tryCandidates(
  { scorer }: SearchProblem,
  buffer: SuffixBuffer,
  base: Scored,
  candidates: readonly Candidate[],
): Promise<Scored[]> {
  const fresh = buffer.unseen(candidates);
  if (fresh.length === 0) return [];
  const survives = await scorer.keepRoundTrips(fresh.map(({ suffixIds }) => suffixIds));
  const scored = await scorer.score(
    base.suffixIds,
    fresh.filter((_, index) => survives[index]),
  );
  buffer.offer(scored);
  return scored;
}

/** Within the bounds raise the projected degradation, else return. */
async function chooseTokens(
  { scorer, allowed, random }: SearchProblem,
  settings: SearchSettings,
  current: Scored,
): Promise<RankedTokens> {
  const { projection, searchMode } = settings;
  const { suffixIds } = current;
  const ranking = { allowed, count: settings.topTokens };
  if (searchMode === 'undirected' || searchMode === 'unguided') {
    const width = allowed.reduce((largest, token) => Math.max(largest, token), 0) + 1;
    const direction = Float32Array.from({ length: suffixIds.length * width }, () => random.next());
    return { promising: rankTokens(suffixIds, direction, ranking), before: 0, after: 0 };
  }
  const towards = chooseDirection(settings, current, scorer.answerLength);
  if (towards.kind !== 'degrade' || projection.kind !== 'subspace')
    return scorer.rankTokens(suffixIds, towards, ranking);
  const { degradationGradient, divergenceGradient } = await scorer.differentiate(suffixIds);
  const positions = await scorer.differentiatePositions(suffixIds);
  const direction = projectGradient(degradationGradient, positions, projection);
  return {
    promising: rankTokens(suffixIds, direction, ranking),
    before: cosine(degradationGradient, divergenceGradient),
    after: cosine(direction, divergenceGradient),
  };
}

function chooseDirection(
  { projection, searchMode, ...bounds }: SearchSettings,
  current: Scored,
  answerLength: number,
): SearchDirection {
  const isOutside = !isInside(current, bounds, answerLength);
  if (isOutside && current.divergence <= bounds.epsilon) return { kind: 'restoreAnswer' };
  if (searchMode === 'preservation' || isOutside) return { kind: 'restoreDistribution' };
  return { kind: 'degrade', weight: projection.kind === 'direction' ? projection.weight : 0 };
}
