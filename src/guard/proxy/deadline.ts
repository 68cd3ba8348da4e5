/** Node treats longer times as none. */
const maxTimerMs = 2 ** 31 - 1;

/** One timer for several waits in a row: each wait replaces the previous one. */
export class Deadline {
  private timer: NodeJS.Timeout | undefined;
  private waitMs = 0;
  private action: (() => void) | undefined;

  /** Calls `action` after the time; 0 means never. */
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
    this.timer = setTimeout(() => this.action?.(), Math.min(waitMs, maxTimerMs));
    this.timer.unref();
  }

  /** Restarts the current wait. */
  prolong(): void {
    this.timer?.refresh();
  }

  clear(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.action = undefined;
  }
}
