import { describe, expect, it } from 'vitest';
import { countGpuBytes } from '../decode/gpu-fit.js';
import { bundledTarget } from '../core/package-files.js';
import type { RecordedDevice } from '../runtime/device-choice.js';
import { countDefaultWorkers, requireRoom, seatWorkers } from './run-device.js';

const gpu: RecordedDevice = { kind: 'cuda', dtype: 'bfloat16', ordinal: 0, name: 'Alpha' };
const alphas = [0, 1].map((ordinal) => ({ ordinal, name: 'Alpha' }));

describe('workers', () => {
  it('take the GPUs in turn and share the threads', () => {
    const seats = seatWorkers({ count: 3, devices: alphas }, gpu, 8);
    expect(seats.map(({ name, threads }) => [name, threads])).toEqual([
      ['worker-1 (cuda:0)', 2],
      ['worker-2 (cuda:1)', 2],
      ['worker-3 (cuda:0)', 2],
    ]);
    expect(seats[1]).toMatchObject({ device: { ...gpu, ordinal: 1 }, gpu: 1 });
    expect(seatWorkers({ count: 2 }, { kind: 'cpu', dtype: 'float32' }, 1)).toEqual([
      { name: 'worker-1', device: { kind: 'cpu', dtype: 'float32' }, threads: 1 },
      { name: 'worker-2', device: { kind: 'cpu', dtype: 'float32' }, threads: 1 },
    ]);
  });

  it('must fit into the free memory of their GPU', async () => {
    const bytes = await countGpuBytes([bundledTarget], 'bfloat16');
    const host = { freeBytes: () => Promise.resolve(2.5 * bytes) };
    const placed = (count: number): RecordedDevice[] =>
      seatWorkers({ count, devices: alphas }, gpu, 1).map(({ device }) => device);
    await requireRoom(placed(4), [bundledTarget], host);
    await expect(requireRoom(placed(5), [bundledTarget], host)).rejects.toMatchObject({
      message: expect.stringMatching(/^cuda:0 has .* free; 3 workers on it need at least /) as string,
      hint: 'Use --workers 4 or fewer.',
    });
  });

  it.each([
    ['8 at most', {}, 8],
    ['a core for the main thread', { cores: 4 }, 3],
    ['one for each search', { searches: 2 }, 2],
    ['twice the models of each in memory', { freeBytes: 79 }, 3],
    ['one if nothing is searched', { searches: 0 }, 1],
    ['one if the models hardly fit', { freeBytes: 12 }, 1],
    ['one on one core', { cores: 1 }, 1],
  ])('are several on a GPU by default: %s', (_, limits, count) => {
    const ample = { cores: 32, searches: 100, freeBytes: 1000, modelBytes: 10 };
    expect(countDefaultWorkers({ ...ample, ...limits })).toBe(count);
  });
});
