import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { float32 } from './program.js';
import { PreparationClock, workingMs } from './preparation-clock.js';
import { symbol } from '../graph/dimension.js';
import { add } from '../graph/operations/elementwise.js';
import { softmax } from '../graph/operations/reductions.js';
import { input } from '../graph/tensor.js';
import { createCudaRuntime } from './cuda/cuda-runtime.js';
import type { Device } from './cuda/driver/device.js';

let nowMs = 0;
const pass = (milliseconds: number): void => {
  nowMs += milliseconds;
};
beforeEach(() => {
  nowMs = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
});
afterEach(() => void vi.restoreAllMocks());

describe('the time of preparation', () => {
  it('counts what overlaps once, and not what others compute meanwhile', async () => {
    const clock = new PreparationClock();
    const open: (() => void)[] = [];
    const held = (): Promise<void> => new Promise((resolve) => open.push(resolve));
    const files = [clock.during(held), clock.during(held)];
    pass(10);
    const run = clock.running(held);
    pass(500);
    clock.blocking(() => {
      pass(20);
    });
    expect(clock.ms).toBe(30);
    for (const resolve of open) resolve();
    await Promise.all([...files, run]);
    pass(1000);
    expect(clock.ms).toBe(30);
    expect(workingMs({ preparationMs: clock.ms })).toBe(1500);
  });

  it('ends with work that fails', async () => {
    const clock = new PreparationClock();
    const fail = (): never => {
      pass(5);
      throw new Error('no');
    };
    expect(() => clock.blocking(fail)).toThrow('no');
    await expect(clock.during(() => Promise.resolve().then(fail))).rejects.toThrow('no');
    pass(100);
    expect(clock.ms).toBe(10);
  });

  it('is on a GPU that of compiling, of the first launch of a layout, and of its first recording', async () => {
    let places = 1n;
    const device = {
      computeCapability: [9, 0],
      totalBytes: 2 ** 30,
      allocate: (bytes: number) => (places += BigInt(bytes)),
      ...{ free: () => undefined, upload: () => undefined, download: () => Promise.resolve() },
      compile: () => {
        pass(1000);
        return { kernel: (name: string) => ({ name }), unload: () => undefined };
      },
      launch: () => {
        pass(1);
      },
      record: (work: () => void) => {
        pass(100);
        work();
        return { free: () => undefined };
      },
      replay: () => {
        pass(1);
      },
    } as unknown as Device;
    const x = input('x', [symbol('row'), 64]);
    const runtime = createCudaRuntime(device);
    const program = await runtime.compile({ shares: softmax(add(x, softmax(x))) });
    const compiledMs = runtime.preparationMs!;
    expect(compiledMs).toBeGreaterThanOrEqual(1000);
    const values = { x: float32(new Float32Array(128), [2, 64]) };
    const added: number[] = [];
    for (let run = 0; run < 4; run++) {
      const [beforeMs, before] = [nowMs, runtime.preparationMs!];
      await program.run(values);
      added.push(runtime.preparationMs! - before);
      if (run > 1) expect(nowMs - beforeMs).toBe(1);
    }
    const launches = added[0]!;
    expect(launches).toBeGreaterThan(0);
    expect(added).toEqual([launches, 100 + launches, 0, 0]);
  });
});
