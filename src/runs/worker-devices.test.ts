import { describe, expect, it } from 'vitest';
import { countGpuBytes } from '../decode/gpu-fit.js';
import { bundledTarget } from '../decode/bundled-models.js';
import type { RecordedDevice } from '../runtime/device-choice.js';
import { requireRoom, seatWorkers } from './run-device.js';

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
    expect(seats[1]!.device).toEqual({ ...gpu, ordinal: 1 });
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
      message: expect.stringMatching(
        /^cuda:0 has .* free; 3 worker processes on it need at least /,
      ) as string,
      hint: 'Use --workers 4 or fewer.',
    });
  });
});
