const weekMs = 604_800_000;
const hourMs = 3_600_000;

export interface SavedTraffic {
  readonly requests: number;
  readonly firstMs: number | null;
  readonly lastMs: number;
}

/** Requests per week, estimated from recent ones; each week counts half as much as the next. */
export class TrafficRate {
  private requests = 0;
  private firstMs: number | undefined;
  private lastMs = 0;

  constructor(private readonly minPerWeek: number) {}

  count(atMs: number): void {
    this.firstMs ??= atMs;
    const passedMs = Math.max(0, atMs - Math.max(this.lastMs, this.firstMs));
    this.requests = this.requests * 2 ** (-passedMs / weekMs) + 1;
    this.lastMs = Math.max(this.lastMs, atMs);
  }

  save(): SavedTraffic {
    return { requests: this.requests, firstMs: this.firstMs ?? null, lastMs: this.lastMs };
  }

  restore({ requests, firstMs, lastMs }: SavedTraffic): void {
    Object.assign(this, { requests, firstMs: firstMs ?? undefined, lastMs });
  }

  get perWeek(): number {
    const seenMs = this.firstMs === undefined ? 0 : this.lastMs - this.firstMs;
    // The part of a week that steady traffic leaves in the decayed count.
    const remembered = (1 - 2 ** (-seenMs / weekMs)) / Math.LN2;
    return remembered < hourMs / weekMs
      ? this.minPerWeek
      : Math.max(this.minPerWeek, this.requests / remembered);
  }
}
