import { workingMs } from '../runtime/preparation-clock.js';
import type { Runtime } from '../runtime/program.js';

export interface GenerationTimes {
  /** Compiling, loading and recording programs, and waiting for that; no other time includes it. */
  readonly preparationMs: number;
  readonly prefillMs: number;
  /** From the first token, which the prefill gives, to the last. */
  readonly decodeMs: number;
}

/** The times of a generation. They stand still while its runtime prepares programs. */
export class GenerationClock {
  private readonly openedMs = performance.now();
  private startMs = 0;
  prefillMs = 0;

  constructor(private readonly runtime: Pick<Runtime, 'preparationMs'>) {}

  now(): number {
    return workingMs(this.runtime);
  }

  /** Everything before is preparation. */
  start(): void {
    this.startMs = this.now();
  }

  endPrefill(): void {
    this.prefillMs = this.now() - this.startMs;
  }

  end(): GenerationTimes {
    const { prefillMs } = this;
    const workedMs = this.now() - this.startMs;
    const preparationMs = performance.now() - this.openedMs - workedMs;
    return { preparationMs, prefillMs, decodeMs: workedMs - prefillMs };
  }
}
