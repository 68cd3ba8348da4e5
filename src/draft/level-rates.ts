/** Acceptance at the first level before any step, and how many drafts the level above counts for. */
const [initialRate, levelWeight] = [0.6, 4];

/** Decaying counts, level by level, of the draft tokens that were reached and of those accepted. */
export class LevelRates {
  private readonly tried: number[] = []; // [level]
  private readonly accepted: number[] = []; // [level]

  constructor(private readonly decay: number) {}

  count(level: number, accepted: number, weight = 1): void {
    const kept = this.decay ** weight;
    this.tried[level] = (this.tried[level] ?? 0) * kept + weight;
    this.accepted[level] = (this.accepted[level] ?? 0) * kept + weight * accepted;
  }

  /** A rate with a prior that counts like `weight` drafts. */
  rateOf(level: number, prior: number, weight: number): number {
    return ((this.accepted[level] ?? 0) + prior * weight) / ((this.tried[level] ?? 0) + weight);
  }

  /** [level] Where counts are few, the rate of the level above fills in. */
  listRates(length: number): readonly number[] {
    const rates: number[] = [];
    for (let level = 0; level < length; level++)
      rates.push(this.rateOf(level, rates[level - 1] ?? initialRate, levelWeight));
    return rates;
  }

  fade(share: number): void {
    for (const counts of [this.tried, this.accepted])
      counts.forEach((value, level) => (counts[level] = value * share));
  }
}
