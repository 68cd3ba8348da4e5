/**
 * Where runs of several sequences meet. A sequence decodes as if it were alone and asks here for every pass; whoever
 * runs several of them waits until all have asked and makes one run of what fits together (decode/engine/engine.ts).
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

/** What a sequence has seen of the passes that it takes part in. */
export interface PassLog {
  /** Milliseconds in programs, without waiting for others. */
  readonly ms: number;
  /** Undefined before the first pass of the target. */
  readonly step: BatchStep | undefined;
}

export interface Meeting {
  /** Undefined where only one sequence runs. */
  readonly log?: PassLog;
  run(program: LaneProgram, run: LaneRun, outputs: readonly string[]): Promise<MixedValues>;
}

/** Nobody to wait for. */
export const alone: Meeting = {
  async run(program, run, outputs) {
    const [result] = await program.run([run], outputs);
    return result!;
  },
};
