/**
 * Where runs of several sequences meet. A sequence decodes as if it were alone and asks here for every pass; whoever
 * runs several of them waits until all have asked and makes one run of what fits together (decode/engine.ts).
 */
import type { MixedValues } from '../runtime/program.js';
import type { LaneProgram, LaneRun } from './lane-program.js';

export interface Meeting {
  run(program: LaneProgram, run: LaneRun, outputs: readonly string[]): Promise<MixedValues>;
}

/** Nobody to wait for. */
export const alone: Meeting = {
  async run(program, run, outputs) {
    const [result] = await program.run([run], outputs);
    return result!;
  },
};
