/**
 * The time a runtime spends on programs before they compute: compiling graphs and kernels, loading weights for them, laying
 * out memory and recording. Programs are compiled on first use, often in the middle of an answer. The clocks of all
 * answers stand still meanwhile (`workingMs`), so that no speed includes it.
 */
import type { Runtime } from './program.js';

export class PreparationClock {
  private readonly counts = { waiting: 0, blocking: 0, running: 0 };
  private sinceMs = 0;
  private spentMs = 0;

  get ms(): number {
    return this.spentMs + (this.isGoing() ? performance.now() - this.sinceMs : 0);
  }

  /** For work that blocks the thread: nothing else computes. */
  blocking<Result>(work: () => Result): Result {
    this.change('blocking', 1);
    try {
      return work();
    } finally {
      this.change('blocking', -1);
    }
  }

  /** For work that waits, for example for a file. What other programs compute meanwhile is not preparation. */
  async during<Result>(work: () => Promise<Result>): Promise<Result> {
    this.change('waiting', 1);
    try {
      return await work();
    } finally {
      this.change('waiting', -1);
    }
  }

  async running<Result>(work: () => Promise<Result>): Promise<Result> {
    this.change('running', 1);
    try {
      return await work();
    } finally {
      this.change('running', -1);
    }
  }

  private isGoing(): boolean {
    const { waiting, blocking, running } = this.counts;
    return blocking > 0 || (waiting > 0 && running === 0);
  }

  private change(kind: 'waiting' | 'blocking' | 'running', by: 1 | -1): void {
    const wasGoing = this.isGoing();
    this.counts[kind] += by;
    if (wasGoing === this.isGoing()) return;
    const nowMs = performance.now();
    if (wasGoing) this.spentMs += nowMs - this.sinceMs;
    else this.sinceMs = nowMs;
  }
}

/** A clock that stands still while the runtime prepares programs. */
export function workingMs({ preparationMs = 0 }: Pick<Runtime, 'preparationMs'>): number {
  return performance.now() - preparationMs;
}
