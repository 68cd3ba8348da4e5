/**
 * The search for a suffix (Mistletoe, arXiv 2605.14005, on GCG's coordinate steps): follow the gradient of the
 * degradation with the directions of the target's own distribution projected out, try the most promising single-token
 * changes for real, discard those that move the target's distribution by more than epsilon, keep the best. A suffix outside
 * the bound first returns inside. Where suffixes can be decoded, the few most promising ones of each step are, and the
 * measured accepted length decides: along an answer that soon takes its own way the objective is a weak guide.
 */
import type { Random } from '../core/random.js';
import type { Candidate } from './candidates.js';
import { mergeEdits, proposeCandidates } from './candidates.js';
import type { Projection } from './projection.js';
import { cosine, projectGradient } from './projection.js';
import type { TracePoint } from './result.js';
import type { Scored, SuffixGradients } from './scoring.js';
import type { Measured } from './suffix-buffer.js';
import { SuffixBuffer } from './suffix-buffer.js';

export interface SearchSettings {
  readonly steps: number;
  readonly candidates: number;
  readonly topTokens: number;
  readonly positions: number;
  /** Most edits that are merged into one suffix in a step; 1 for none. */
  readonly merges: number;
  /** The veto: mean divergence of the target's distribution, in nats, that a suffix may cause. */
  readonly epsilon: number;
  readonly projection: Projection;
  /** Suffixes that are kept, best first. */
  readonly buffer: number;
  /** Suffixes that are decoded in each step. */
  readonly decodes: number;
  /** Steps without gain after which the search goes on from the best suffix that it has not yet gone on from. */
  readonly patience: number;
  /** What is driven up: the drafter's disagreement, or (as a control) nothing but the preservation of the answer. */
  readonly drive: 'degradation' | 'preservation';
}

/** What a search asks of its prompt, or of several at once. */
export interface SuffixScorer {
  /** Degradation and divergence of candidates that equal `base` before their first edit. */
  score(base: readonly number[], candidates: readonly Candidate[]): Promise<Scored[]>;
  differentiate(suffixIds: readonly number[]): Promise<SuffixGradients>;
  /** The preservation gradient of every answer position. */
  differentiatePositions(suffixIds: readonly number[]): Promise<readonly Float32Array[]>;
  /** Which suffixes survive decoding and encoding in place. */
  keepRoundTrips(suffixes: readonly (readonly number[])[]): Promise<readonly boolean[]>;
}

/** Mean accepted length by real decoding; Infinity where the answer is not kept or the length is not beaten. */
export type Measure = (suffixIds: readonly number[], toBeat: number) => Promise<number>;

export interface SearchProblem {
  readonly scorer: SuffixScorer;
  readonly allowed: Int32Array;
  /** Suffixes to begin with; the search starts from the best. */
  readonly starts: readonly (readonly number[])[];
  readonly random: Random;
  readonly measure?: Measure;
  readonly onStep?: (point: TracePoint) => void;
  readonly signal?: AbortSignal;
}

export interface SearchOutcome {
  /** Feasible suffixes, best first; empty if none was within the bound. */
  readonly best: readonly Scored[];
  /** The lowest accepted length that was measured. */
  readonly shortest: Measured | undefined;
  readonly trace: readonly TracePoint[];
  /** The smallest divergence of any suffix that was scored. */
  readonly leastDivergence: number;
  readonly interrupted: boolean;
}

export async function searchSuffix(problem: SearchProblem, settings: SearchSettings): Promise<SearchOutcome> {
  const { scorer, random } = problem;
  const buffer = new SuffixBuffer(settings);
  const trace: TracePoint[] = [];
  await tryStarts(problem, settings, buffer);
  let current = buffer.takeNext()!;
  let stalled = 0;

  for (let step = 1; step <= settings.steps; step++) {
    if (problem.signal?.aborted === true) return { ...buffer.outcome(), trace, interrupted: true };
    if (stalled >= settings.patience) {
      current = buffer.takeNext() ?? current;
      stalled = 0;
    }
    // 1. Which way is up, without moving the target's distribution?
    const gradients = await scorer.differentiate(current.suffixIds);
    const { direction, before, after } = await chooseDirection(problem, settings, current, gradients);
    // 2. The most promising changes that survive as text.
    const proposed = proposeCandidates(current.suffixIds, direction, problem.allowed, settings, random);
    const fresh = await keepSurvivors(problem, buffer.unseen(proposed));
    // 3. What they really do.
    const scored = await scorer.score(current.suffixIds, fresh);
    // 4. Several good changes at once are often better still.
    const improving = buffer.rank(scored, current).filter((candidate) => buffer.isGain(candidate, current));
    const merged = await keepSurvivors(
      problem,
      buffer.unseen(mergeEdits(current.suffixIds, improving, settings.merges)),
    );
    const all = [...scored, ...(await scorer.score(current.suffixIds, merged))];
    buffer.offer(all);
    // 5. What the best of them do to the speed.
    const measured = await decodeBest(problem, settings, buffer.rank(all, current), current.length);
    buffer.record(measured);
    // 6. Go on from the best, if it is better.
    const winner = buffer.pickBest(measured, current);
    stalled = winner === undefined ? stalled + 1 : 0;
    if (winner !== undefined) current = buffer.take(winner);
    const point = {
      step,
      degradation: buffer.best?.degradation ?? current.degradation,
      divergence: buffer.best?.divergence ?? current.divergence,
      acceptedLength: buffer.shortest?.length ?? null,
      cosineBefore: before,
      cosineAfter: after,
      candidates: all.length,
      vetoed: all.filter(({ divergence }) => divergence > settings.epsilon).length,
    };
    trace.push(point);
    problem.onStep?.(point);
  }
  return { ...buffer.outcome(), trace, interrupted: false };
}

/** The first few decoded for real where that is possible; what lies outside the bound is not worth it. */
async function decodeBest(
  { measure }: SearchProblem,
  { decodes, epsilon }: SearchSettings,
  ranked: readonly Scored[],
  toBeat: number,
): Promise<Measured[]> {
  const measured: Measured[] = [];
  for (const candidate of ranked.slice(0, Math.max(1, decodes))) {
    const isWorth = measure !== undefined && measured.length < decodes && candidate.divergence <= epsilon;
    const length = isWorth ? await measure(candidate.suffixIds, toBeat) : Infinity;
    measured.push({ ...candidate, length });
    toBeat = Math.min(toBeat, length);
  }
  return measured;
}

async function tryStarts(
  problem: SearchProblem,
  settings: SearchSettings,
  buffer: SuffixBuffer,
): Promise<void> {
  for (const start of buffer.unseen(problem.starts.map((suffixIds) => ({ suffixIds, first: 0 })))) {
    const scored = await problem.scorer.score(start.suffixIds, [start]);
    buffer.offer(scored);
    buffer.record(await decodeBest(problem, settings, scored, Infinity));
  }
}

/** Inside the bound up the projected degradation, outside it down the divergence. [suffix, vocabulary] */
async function chooseDirection(
  { scorer }: SearchProblem,
  { epsilon, projection, drive }: SearchSettings,
  current: Scored,
  gradients: SuffixGradients,
): Promise<{ direction: Float32Array; before: number; after: number }> {
  const { degradationGradient, divergenceGradient } = gradients;
  const before = cosine(degradationGradient, divergenceGradient);
  if (drive === 'preservation' || current.divergence > epsilon) {
    return { direction: divergenceGradient.map((value) => -value), before, after: -1 };
  }
  const removed =
    projection.kind === 'subspace'
      ? await scorer.differentiatePositions(current.suffixIds)
      : [divergenceGradient];
  const direction = projectGradient(degradationGradient, removed, projection);
  return { direction, before, after: cosine(direction, divergenceGradient) };
}

async function keepSurvivors(
  { scorer }: SearchProblem,
  candidates: readonly Candidate[],
): Promise<Candidate[]> {
  if (candidates.length === 0) return [];
  const survives = await scorer.keepRoundTrips(candidates.map(({ suffixIds }) => suffixIds));
  return candidates.filter((_, index) => survives[index]);
}
