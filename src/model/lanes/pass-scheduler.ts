/**
 * Schedules the passes of sequences. A sequence asks for every pass here; an engine waits until all of its sequences have
 * asked and runs passes of the same program together (decode/engine/engine.ts).
 */
import type { MixedValues } from '../../runtime/program.js';
import type { LaneProgram, LaneRun } from './lane-program.js';

/** A step of all sequences that run together. */
export interface BatchStep {
  /** Counts the passes of the target: sequences that share a pass see the same number. */
  readonly pass: number;
  readonly batchSize: number;
  /** Rows of the longest sequence, to which the others are padded. */
  readonly rows: number;
  /** From the end of the previous pass of the target, without reading prompts. */
  readonly stepMs: number;
}

/** The passes that a sequence took part in. */
export interface PassLog {
  /** Milliseconds in programs, without waiting for others. */
  readonly ms: number;
  /** Undefined before the first pass of the target. */
  readonly step: BatchStep | undefined;
}

export interface PassScheduler {
  /** Undefined where only one sequence runs. */
  readonly log?: PassLog;
  run(program: LaneProgram, run: LaneRun, outputs: readonly string[]): Promise<MixedValues>;
}

/** For a single sequence. */
export const runDirectly: PassScheduler = {
  async run(program, run, outputs) {
    const [result] = await program.run([run], [outputs]);
    return result!;
  },
};
