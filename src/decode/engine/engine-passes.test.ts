/** What the passes of a sequence take, however long it waits for those of others. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { LaneProgram, LaneRun } from '../../model/lanes/lane-program.js';
import { Engine } from './engine.js';

let nowMs = 0;
afterEach(() => {
  vi.restoreAllMocks();
});

/** A program that takes so long, on a clock that nothing else moves. */
function createProgram(stage: LaneProgram['stage'], ms: number): LaneProgram {
  const program: Pick<LaneProgram, 'stage' | 'run' | 'prefixOf'> = {
    stage,
    prefixOf: () => undefined,
    run: (runs) => {
      nowMs += ms;
      return Promise.resolve(runs.map(() => ({})));
    },
  };
  return program as LaneProgram;
}

const run = { inputs: {} } as LaneRun;
const rows = (count: number): LaneRun => ({
  inputs: {
    mask: { data: new Float32Array(count), shape: [count, 1] },
    select: { data: Int32Array.of(0), shape: [1] },
  },
});

describe('a sequence in an engine', () => {
  it('sees the time of its own passes, not of those that it waits for', async () => {
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
    const engine = new Engine();
    const draft = createProgram('draft', 3);
    const verify = createProgram('verify', 10);
    const step = (drafts: number) =>
      engine.run(async (scheduler) => {
        const times: number[] = [];
        for (let round = 0; round < 2; round++) {
          const before = scheduler.log!.ms;
          for (let pass = 0; pass < drafts; pass++) await scheduler.run(draft, run, []);
          await scheduler.run(verify, run, []);
          times.push(scheduler.log!.ms - before);
        }
        return times;
      });
    const [drafting, plain] = await Promise.all([step(4), step(0)]);
    expect(drafting).toEqual([22, 22]);
    expect(plain).toEqual([10, 10]);
    expect(engine.counts).toMatchObject({ draftRuns: 8, verifyRuns: 2, programMs: 44 });
  });

  it('sees the size, number and time of the step of its batch, without reading prompts', async () => {
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
    const engine = new Engine();
    const draft = createProgram('draft', 3);
    const verify = createProgram('verify', 10);
    const decode = (drafts: number, count: number) =>
      engine.run(async (scheduler) => {
        const seen: object[] = [];
        for (let round = 0; round < 3; round++) {
          nowMs += 1; // work between passes
          if (drafts > 0) await scheduler.run(draft, run, []);
          await scheduler.run(verify, rows(count), []);
          seen.push(scheduler.log!.step!);
        }
        return seen;
      });
    const readPrompt = () => engine.run((scheduler) => scheduler.run(verify, rows(64), []));
    const [drafting, plain] = await Promise.all([decode(1, 4), decode(0, 1), readPrompt()]);
    const step = { batchSize: 2, rows: 4 };
    expect(drafting).toEqual([
      { ...step, pass: 1, stepMs: 10 }, // the start of the first step is unknown
      { ...step, pass: 2, stepMs: 13 }, // the work overlapped with the prompt's pass
      { ...step, pass: 3, stepMs: 15 },
    ]);
    expect(plain).toEqual(drafting);
  });
});
