/** Node takes longer times for none. */
const longestTimer = 2 ** 31 - 1;

/** One clock for a thing that waits for one event after another: each wait replaces the one before. */
export class Deadline {
  private timer: NodeJS.Timeout | undefined;
  private waitMs = 0;
  private action: (() => void) | undefined;

  /** Calls `action` unless something else happens within the time. Zero waits for ever. */
  wait(waitMs: number, action: () => void): void {
    this.action = action;
    if (this.timer !== undefined && waitMs === this.waitMs) {
      this.timer.refresh();
      return;
    }
    clearTimeout(this.timer);
    this.timer = undefined;
    this.waitMs = waitMs;
    if (waitMs === 0) return;
    this.timer = setTimeout(() => this.action?.(), Math.min(waitMs, longestTimer));
    this.timer.unref();
  }

  /** The same wait from now on. */
  prolong(): void {
    this.timer?.refresh();
  }

  clear(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.action = undefined;
  }
}
