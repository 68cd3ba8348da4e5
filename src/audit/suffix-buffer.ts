/** What a search has tried, the best of it under the veto, and where it can still go on from. */
import type { Candidate } from './candidates.js';
import { keyOf } from './candidates.js';
import type { Scored } from './scoring.js';
import type { SearchOutcome, SearchSettings } from './search.js';

export interface Measured extends Scored {
  /** Infinity where it was not measured, or the answer is not kept. */
  readonly length: number;
}

export class SuffixBuffer {
  private readonly seen = new Set<string>();
  private kept: Scored[] = [];
  private leastDivergence = Infinity;
  private waiting: Measured[] = [];
  shortest: Measured | undefined;

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

  /** By the objective alone. */
  isGain(candidate: Scored, base: Scored): boolean {
    if (base.divergence > this.settings.epsilon) return candidate.divergence < base.divergence;
    return candidate.divergence <= this.settings.epsilon && this.value(candidate) > this.value(base);
  }

  /** By what was measured, then by the objective; the control without a drive ignores the measure. */
  isBetter(candidate: Measured, base: Measured): boolean {
    const { epsilon, drive } = this.settings;
    const compares = drive === 'degradation' && Math.max(candidate.divergence, base.divergence) <= epsilon;
    if (compares && candidate.length !== base.length) return candidate.length < base.length;
    return this.isGain(candidate, base);
  }

  pickBest(measured: readonly Measured[], base: Measured): Measured | undefined {
    return measured.reduce<Measured | undefined>(
      (best, candidate) => (this.isBetter(candidate, best ?? base) ? candidate : best),
      undefined,
    );
  }

  record(measured: readonly Measured[]): void {
    this.waiting.push(...measured);
    for (const candidate of measured)
      if (candidate.length < (this.shortest?.length ?? Infinity)) this.shortest = candidate;
  }

  /** Marks a suffix as one that the search has gone on from. */
  take(chosen: Measured): Measured {
    this.waiting = this.waiting.filter((candidate) => candidate !== chosen);
    return chosen;
  }

  /** The best suffix that the search has not yet gone on from. */
  takeNext(): Measured | undefined {
    const [first, ...others] = this.waiting;
    return first === undefined ? undefined : this.take(this.pickBest(others, first) ?? first);
  }

  private value({ degradation, divergence }: Scored): number {
    return this.settings.drive === 'preservation' ? -divergence : degradation;
  }

  outcome(): Pick<SearchOutcome, 'best' | 'shortest' | 'leastDivergence'> {
    return { best: this.kept, shortest: this.shortest, leastDivergence: this.leastDivergence };
  }
}
