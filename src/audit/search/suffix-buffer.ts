/** Tried suffixes, the best within the bounds, and those to continue from. */
import type { Random } from '../../core/random.js';
import type { Candidate } from './candidates.js';
import { keyOf } from './candidates.js';
import type { Scored, SearchOutcome, SearchSettings } from './search-problem.js';
import { violationOf } from './search-problem.js';

const maxWaiting = 16;

export class SuffixBuffer {
  private readonly seen = new Set<string>();
  private readonly values = new Map<Scored, number>();
  private shortest: Scored[] = [];
  private waiting: Scored[] = [];
  private minDivergence = Infinity;
  private scoredCandidates = 0;

  constructor(
    private readonly settings: SearchSettings,
    private readonly answerLength: number,
    /** For an undirected search. */
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

  outcome(): Pick<SearchOutcome, 'finalists' | 'minDivergence' | 'scoredCandidates'> {
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
      case 'undirected': {
        // Drawn once per suffix, so that the order is fixed.
        const value = this.values.get(scored) ?? this.random.next();
        this.values.set(scored, value);
        return value;
      }
    }
  }
}
