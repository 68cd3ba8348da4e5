/** What the passes of a sequence take, however long it waits for those of others. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { LaneProgram, LaneRun } from '../model/lane-program.js';
import { Engine } from './engine.js';

let nowMs = 0;
afterEach(() => {
  vi.restoreAllMocks();
});

/** A program that takes so long, on a clock that nothing else moves. */
function createProgram(stage: LaneProgram['stage'], ms: number): LaneProgram {
  const program: Pick<LaneProgram, 'stage' | 'run' | 'stemOf'> = {
    stage,
    stemOf: () => undefined,
    run: (runs) => {
      nowMs += ms;
      return Promise.resolve(runs.map(() => ({})));
    },
  };
  return program as LaneProgram;
}

const run = { inputs: {} } as LaneRun;

describe('a sequence in an engine', () => {
  it('is told of the passes that it has a part in, and not of those that it waits for', async () => {
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
    const engine = new Engine();
    const draft = createProgram('draft', 3);
    const verify = createProgram('verify', 10);
    const step = (drafts: number) =>
      engine.run(async (meeting, passes) => {
        const times: number[] = [];
        for (let round = 0; round < 2; round++) {
          const before = passes.ms;
          for (let pass = 0; pass < drafts; pass++) await meeting.run(draft, run, []);
          await meeting.run(verify, run, []);
          times.push(passes.ms - before);
        }
        return times;
      });
    const [drafting, plain] = await Promise.all([step(4), step(0)]);
    expect(drafting).toEqual([22, 22]);
    expect(plain).toEqual([10, 10]);
    expect(engine.counts).toMatchObject({ draftRuns: 8, verifyRuns: 2, programMs: 44 });
  });
});
