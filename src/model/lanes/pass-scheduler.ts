/**
 * Schedules passes. An engine waits until all its sequences have asked and runs equal programs together
 * (decode/engine/engine.ts).
 */
import type { MixedValues } from '../../runtime/program.js';
import type { LaneProgram, LaneRun } from './lane-program.js';

export interface BatchStep {
  /** Sequences that share a pass have the same number. */
  readonly pass: number;
  readonly batchSize: number;
  /** Rows of the longest sequence. */
  readonly rows: number;
  /** Since the previous target pass, without prompts. */
  readonly stepMs: number;
}

export interface PassLog {
  /** Without waiting. */
  readonly ms: number;
  /** Undefined before the first target pass. */
  readonly step: BatchStep | undefined;
}

export interface PassScheduler {
  /** Undefined for a single sequence. */
  readonly log?: PassLog | undefined;
  run(program: LaneProgram, run: LaneRun, outputs: readonly string[]): Promise<MixedValues>;
}

export const runDirectly: PassScheduler = {
  async run(program, run, outputs) {
    const [result] = await program.run([run], [outputs]);
    return result!;
  },
};
