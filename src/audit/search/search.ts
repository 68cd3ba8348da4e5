/**
 * The search (Mistletoe, arXiv 2605.14005, on GCG's coordinate steps): follow the degradation gradient with the
 * target's directions projected out, score the most promising changes, veto those that move the target too far,
 * continue from the best. A suffix outside the bounds first returns inside. One pass gives objective, divergence,
 * whether the target follows the clean answer, and the accepted length along it; only finalists are decoded.
 * Searches without gradients draw their changes at random (`unguided`), or their choices too (`blind`).
 */
import type { Random } from '../../core/random.js';
import type { TracePoint } from '../result.js';
import {
  type Candidate,
  keyOf,
  mergeEdits,
  planChanges,
  proposeCandidates,
  type RankedTokens,
  rankTokens,
  type SearchDirection,
} from './candidates.js';
import type { Scored, SearchEffort, SearchOutcome, SearchProblem, SearchSettings } from './search-problem.js';
import { isInside, violationOf } from './search-problem.js';

/** Tried suffixes, the best within the bounds, and those to continue from. */
const maxWaiting = 16;
/** Of a step that misses its share of the effort because all changes were tried before or do not survive as text. */
const maxTries = 32;

type Found = Pick<SearchOutcome, 'finalists' | 'minDivergence' | 'scoredCandidates'>;

class SuffixBuffer {
  private readonly seen = new Set<string>();
  private readonly values = new Map<Scored, number>();
  private shortest: Scored[] = [];
  private waiting: Scored[] = [];
  private minDivergence = Infinity;
  private scoredCandidates = 0;

  constructor(
    private readonly settings: SearchSettings,
    private readonly answerLength: number,
    /** For a blind search. */
    private readonly random: Random,
  ) {}

  unseen(candidates: readonly Candidate[]): Candidate[] {
    return candidates.filter(({ suffixIds }) => {
      const key = keyOf(suffixIds);
      if (this.seen.has(key)) return false;
      this.seen.add(key);
      return true;
    });
  }

  offer(scored: readonly Scored[]): void {
    const { finalists } = this.settings;
    for (const { divergence } of scored) this.minDivergence = Math.min(this.minDivergence, divergence);
    this.scoredCandidates += scored.length;
    const inside = scored.filter((candidate) => this.violation(candidate) === 0);
    // Of equal lengths, the smallest divergence is most likely to keep the answer.
    this.shortest = [...this.shortest, ...inside]
      .sort((left, right) => left.length - right.length || left.divergence - right.divergence)
      .slice(0, finalists);
    this.waiting = this.sort([...this.waiting, ...scored]).slice(0, maxWaiting);
  }

  /** Best first; from a base within the bounds, nothing outside is eligible. */
  rank(scored: readonly Scored[], base: Scored): Scored[] {
    const isInside = this.violation(base) === 0;
    return this.sort(isInside ? scored.filter((candidate) => this.violation(candidate) === 0) : scored);
  }

  isGain(candidate: Scored, base: Scored): boolean {
    return this.compare(candidate, base) < 0;
  }

  take(chosen: Scored): Scored {
    this.waiting = this.waiting.filter((candidate) => candidate !== chosen);
    return chosen;
  }

  takeNext(): Scored | undefined {
    const [next] = this.waiting;
    return next === undefined ? undefined : this.take(next);
  }

  outcome(): Found {
    const { shortest: finalists, minDivergence, scoredCandidates } = this;
    return { finalists, minDivergence, scoredCandidates };
  }

  private sort(scored: readonly Scored[]): Scored[] {
    return [...scored].sort((left, right) => this.compare(left, right));
  }

  /** Negative if the left is better: closer to the bounds, then the higher value. */
  private compare(left: Scored, right: Scored): number {
    return this.violation(left) - this.violation(right) || this.valueOf(right) - this.valueOf(left);
  }

  private violation(scored: Scored): number {
    return violationOf(scored, this.settings, this.answerLength);
  }

  private valueOf(scored: Scored): number {
    switch (this.settings.searchMode) {
      case 'degradation':
      case 'unguided':
        return scored.degradation;
      case 'preservation':
        return -scored.divergence;
      case 'blind': {
        // Drawn once per suffix, so that the order is fixed.
        const value = this.values.get(scored) ?? this.random.next();
        this.values.set(scored, value);
        return value;
      }
    }
  }
}

export async function searchSuffix(problem: SearchProblem, settings: SearchSettings): Promise<SearchOutcome> {
  const { scorer, random, match } = problem;
  const buffer = new SuffixBuffer(settings, scorer.answerLength, random.fork('blind'));
  const trace: TracePoint[] = [];
  let current = await tryStarts(problem, buffer);
  let stalled = 0;
  let ranked: (RankedTokens & { readonly from: Scored }) | undefined;

  for (let step = 1; hasNext(step, settings, match, buffer.outcome()); step++) {
    problem.signal?.throwIfAborted();
    if (stalled >= settings.patience) {
      current = buffer.takeNext() ?? current;
      stalled = 0;
    }
    const quota = quotaOf(step, settings, match, buffer.outcome());
    // 1. Find the direction, unless the last step gained nothing.
    if (ranked?.from !== current)
      ranked = { from: current, ...(await chooseTokens(problem, settings, current)) };
    const { before, after } = ranked;
    // 2. Score the most promising changes that survive as text.
    const changes = planChanges(Math.min(step, settings.steps), settings.steps, settings.moves);
    const tryChanges = (base: Scored, { promising }: RankedTokens, limit: number): Promise<Scored[]> => {
      const candidates = Math.min(settings.candidates, limit);
      const proposed = proposeCandidates(base.suffixIds, promising, { candidates, changes }, random);
      return tryCandidates(problem, buffer, base, proposed, limit);
    };
    const scored = await tryChanges(current, ranked, quota);
    // 3. Merge several good changes.
    const improving = buffer.rank(scored, current).filter((candidate) => buffer.isGain(candidate, current));
    const merged = mergeEdits(current.suffixIds, improving, settings.merges);
    const all = [
      ...scored,
      ...(await tryCandidates(problem, buffer, current, merged, quota - scored.length)),
    ];
    // 4. With an effort to match, score more changes until the step has its share.
    for (let tries = 0; Number.isFinite(quota) && all.length < quota && tries < maxTries; tries++) {
      const more = await tryChanges(current, ranked, quota - all.length);
      all.push(...more);
      // Other tokens, once those of this direction are used up.
      if (more.length === 0) ranked = { from: current, ...(await chooseTokens(problem, settings, current)) };
    }
    // 5. Continue from the best if it is better.
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
  return { ...buffer.outcome(), trace };
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
  limit: number,
): Promise<Scored[]> {
  const fresh = buffer.unseen(candidates);
  if (fresh.length === 0) return [];
  const survives = await scorer.keepRoundTrips(fresh.map(({ suffixIds }) => suffixIds));
  const scored = await scorer.score(
    base.suffixIds,
    fresh.filter((_, index) => survives[index]).slice(0, limit),
  );
  buffer.offer(scored);
  return scored;
}

/** How many candidates a step may score: with an effort to match, an equal share of what is left of it. */
function quotaOf(
  step: number,
  { steps, candidates }: SearchSettings,
  match: SearchEffort | undefined,
  { scoredCandidates }: Found,
): number {
  if (match === undefined) return Infinity;
  const left = Math.max(0, match.scoredCandidates - scoredCandidates);
  if (step <= steps) return Math.ceil(left / (steps - step + 1));
  return left > 0 ? left : candidates;
}

/**
 * A search that matches another's effort goes on where changes around its suffixes were used up, and where it has fewer
 * finalists; for these it may score twice as many.
 */
function hasNext(
  step: number,
  { steps }: SearchSettings,
  match: SearchEffort | undefined,
  { finalists, scoredCandidates }: Found,
): boolean {
  if (step <= steps) return true;
  if (match === undefined || step > 2 * steps) return false;
  const isShort = finalists.length < match.decodedSuffixes;
  return scoredCandidates < (isShort ? 2 : 1) * match.scoredCandidates;
}

/** Within the bounds raise the projected degradation, else return. */
async function chooseTokens(
  { scorer, allowed, random }: SearchProblem,
  settings: SearchSettings,
  current: Scored,
): Promise<RankedTokens> {
  const { searchMode } = settings;
  const { suffixIds } = current;
  const ranking = { allowed, count: settings.topTokens };
  if (searchMode !== 'degradation' && searchMode !== 'preservation') {
    const width = allowed.reduce((largest, token) => Math.max(largest, token), 0) + 1;
    const direction = Float32Array.from({ length: suffixIds.length * width }, () => random.next());
    return { promising: rankTokens(suffixIds, direction, ranking), before: 0, after: 0 };
  }
  return scorer.rankTokens(suffixIds, chooseDirection(settings, current, scorer.answerLength), ranking);
}

function chooseDirection(
  { projection, searchMode, ...bounds }: SearchSettings,
  current: Scored,
  answerLength: number,
): SearchDirection {
  const isOutside = !isInside(current, bounds, answerLength);
  if (isOutside && current.divergence <= bounds.epsilon) return { kind: 'restoreAnswer' };
  if (searchMode === 'preservation' || isOutside) return { kind: 'restoreDistribution' };
  return { kind: 'degrade', projection };
}
