/** At most so many in a span of time, spread as they like: a bucket that refills steadily. */
export class TokenBucket {
  private tokens: number;
  private lastMs: number | undefined;

  constructor(
    private readonly most: number,
    private readonly spanMs: number,
  ) {
    this.tokens = most;
  }

  /** Takes one and returns 0; or takes none and returns after how many milliseconds there will be one. */
  take(atMs: number): number {
    const passedMs = Math.max(0, atMs - (this.lastMs ?? atMs));
    this.tokens = Math.min(this.most, this.tokens + (passedMs * this.most) / this.spanMs);
    this.lastMs = Math.max(atMs, this.lastMs ?? atMs);
    if (this.tokens < 1) return Math.ceil(((1 - this.tokens) * this.spanMs) / this.most);
    this.tokens -= 1;
    return 0;
  }
}
