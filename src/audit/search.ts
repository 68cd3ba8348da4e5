/**
 * The search for a suffix (Mistletoe, arXiv 2605.14005, on GCG's coordinate steps): follow the gradient of the
 * degradation with the directions of the target's own law projected out, try the most promising single-token
 * changes for real, discard those that move the target's law by more than epsilon, keep the best. A suffix outside
 * the bound first returns inside.
 */
import type { Random } from '../core/random.js';
import type { Candidate } from './candidates.js';
import { keyOf, mergeEdits, proposeCandidates } from './candidates.js';
import type { Projection } from './projection.js';
import { cosine, projectGradient } from './projection.js';
import type { TracePoint } from './result.js';
import type { Scored, SuffixGradients } from './scoring.js';

export interface SearchSettings {
  readonly steps: number;
  readonly candidates: number;
  readonly topTokens: number;
  readonly positions: number;
  /** Most edits that are merged into one suffix in a step; 1 for none. */
  readonly merges: number;
  /** The veto: mean divergence of the target's law, in nats, that a suffix may cause. */
  readonly epsilon: number;
  readonly projection: Projection;
  /** Suffixes that are kept for being measured. */
  readonly buffer: number;
  /** Steps without gain after which the search goes on from the next start. */
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

export interface SearchProblem {
  readonly scorer: SuffixScorer;
  readonly allowed: Int32Array;
  /** Suffixes to begin with; the search starts from the best and restarts from the next when it stalls. */
  readonly starts: readonly (readonly number[])[];
  readonly random: Random;
  readonly onStep?: (point: TracePoint) => void;
  readonly signal?: AbortSignal;
}

export interface SearchOutcome {
  /** Feasible suffixes, best first; empty if none was within the bound. */
  readonly best: readonly Scored[];
  readonly trace: readonly TracePoint[];
  /** The smallest divergence of any suffix that was scored. */
  readonly leastDivergence: number;
  readonly interrupted: boolean;
}

export async function searchSuffix(problem: SearchProblem, settings: SearchSettings): Promise<SearchOutcome> {
  const { scorer, random } = problem;
  const buffer = new SuffixBuffer(settings);
  const trace: TracePoint[] = [];
  const starts = await rankStarts(problem, buffer);
  let current = starts.shift()!;
  let stalled = 0;

  for (let step = 1; step <= settings.steps; step++) {
    if (problem.signal?.aborted === true) return { ...buffer.outcome(), trace, interrupted: true };
    if (stalled >= settings.patience && starts.length > 0) {
      current = starts.shift()!;
      stalled = 0;
    }
    // 1. Which way is up, without moving the target's law?
    const gradients = await scorer.differentiate(current.suffixIds);
    const { direction, before, after } = await chooseDirection(problem, settings, current, gradients);
    // 2. The most promising changes that survive as text.
    const proposed = proposeCandidates(current.suffixIds, direction, problem.allowed, settings, random);
    const fresh = await keepSurvivors(problem, buffer.unseen(proposed));
    // 3. What they really do.
    const scored = await scorer.score(current.suffixIds, fresh);
    const ranked = buffer.rank(scored, current);
    // 4. Several good changes at once are often better still.
    const improving = ranked.filter((candidate) => buffer.isBetter(candidate, current));
    const merged = await keepSurvivors(
      problem,
      buffer.unseen(mergeEdits(current.suffixIds, improving, settings.merges)),
    );
    const all = [...scored, ...(await scorer.score(current.suffixIds, merged))];
    buffer.offer(all);
    // 5. Go on from the best, if it is better.
    const [winner] = buffer.rank(all, current);
    const isBetter = winner !== undefined && buffer.isBetter(winner, current);
    stalled = isBetter ? 0 : stalled + 1;
    if (isBetter) current = winner;
    const point = {
      step,
      degradation: buffer.best?.degradation ?? current.degradation,
      divergence: buffer.best?.divergence ?? current.divergence,
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

/** All starts scored, the most promising first: inside the bound by value, then by least divergence. */
async function rankStarts({ scorer, starts }: SearchProblem, buffer: SuffixBuffer): Promise<Scored[]> {
  const scored: Scored[] = [];
  for (const start of buffer.unseen(starts.map((suffixIds) => ({ suffixIds, first: 0 }))))
    scored.push(...(await scorer.score(start.suffixIds, [start])));
  buffer.offer(scored);
  return scored.sort(
    (left, right) => Number(buffer.isBetter(right, left)) - Number(buffer.isBetter(left, right)),
  );
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

/** What has been tried, and the best of it under the veto. */
class SuffixBuffer {
  private readonly seen = new Set<string>();
  private kept: Scored[] = [];
  private leastDivergence = Infinity;

  constructor(private readonly settings: SearchSettings) {}

  get best(): Scored | undefined {
    return this.kept[0];
  }

  unseen(candidates: readonly Candidate[]): Candidate[] {
    return candidates.filter(({ suffixIds }) => {
      const key = keyOf(suffixIds);
      if (this.seen.has(key)) return false;
      this.seen.add(key);
      return true;
    });
  }

  offer(scored: readonly Scored[]): void {
    for (const { divergence } of scored) this.leastDivergence = Math.min(this.leastDivergence, divergence);
    const feasible = scored.filter(({ divergence }) => divergence <= this.settings.epsilon);
    const distinct = new Map([...this.kept, ...feasible].map((entry) => [keyOf(entry.suffixIds), entry]));
    this.kept = [...distinct.values()].sort((left, right) => this.value(right) - this.value(left));
    this.kept = this.kept.slice(0, this.settings.buffer);
  }

  /** Best first: by value among the feasible ones, or, where the base is outside the bound, by least divergence. */
  rank(scored: readonly Scored[], base: Scored): Scored[] {
    const { epsilon } = this.settings;
    const isInside = base.divergence <= epsilon;
    const eligible = isInside ? scored.filter(({ divergence }) => divergence <= epsilon) : [...scored];
    return eligible.sort((left, right) =>
      isInside ? this.value(right) - this.value(left) : left.divergence - right.divergence,
    );
  }

  isBetter(candidate: Scored, base: Scored): boolean {
    if (base.divergence > this.settings.epsilon) return candidate.divergence < base.divergence;
    return candidate.divergence <= this.settings.epsilon && this.value(candidate) > this.value(base);
  }

  private value({ degradation, divergence }: Scored): number {
    return this.settings.drive === 'preservation' ? -divergence : degradation;
  }

  outcome(): Pick<SearchOutcome, 'best' | 'leastDivergence'> {
    return { best: this.kept, leastDivergence: this.leastDivergence };
  }
}
