import { describe, expect, it } from 'vitest';
import { countGpuBytes } from '../decode/gpu-fit.js';
import { bundledTarget } from '../core/package-files.js';
import type { RecordedDevice } from '../runtime/device-choice.js';
import { chooseThreads, countDefaultWorkers, noteCrowding, requireRoom, seatWorkers } from './run-device.js';

const gpu: RecordedDevice = { kind: 'cuda', dtype: 'bfloat16', ordinal: 0, name: 'Alpha' };
const cpu: RecordedDevice = { kind: 'cpu', dtype: 'float32' };
const alphas = [0, 1].map((ordinal) => ({ ordinal, name: 'Alpha' }));

describe('workers', () => {
  it('take the GPUs in turn', () => {
    const seats = seatWorkers({ count: 3, devices: alphas }, gpu);
    const names = ['worker-1 (cuda:0)', 'worker-2 (cuda:1)', 'worker-3 (cuda:0)'];
    expect(seats.map(({ name }) => name)).toEqual(names);
    expect(seats[1]).toMatchObject({ device: { ...gpu, ordinal: 1 }, gpu: 1 });
    expect(seatWorkers({ count: 2 }, cpu)).toEqual([
      { name: 'worker-1', device: cpu },
      { name: 'worker-2', device: cpu },
    ]);
  });

  it.each([
    ['all cores', {}, cpu, 8],
    ['the cores, divided by the workers', { workers: 3 }, cpu, 2],
    ['one of too few cores', { workers: 9 }, cpu, 1],
    ['the given number, however many workers there are', { threads: 5, workers: 3 }, cpu, 5],
    ['the same on a GPU for any number of workers', { workers: 3 }, gpu, 8],
  ])('have as many CPU threads as the run records: %s', (_, given, device, threads) => {
    expect(chooseThreads(given, device, 8)).toBe(threads);
  });

  it('are noted if they have more threads than there are cores', () => {
    const notes: string[] = [];
    const start = (count: number, device: RecordedDevice): void => {
      noteCrowding(seatWorkers({ count }, device), 4, (message) => void notes.push(message), 8);
    };
    start(2, cpu);
    start(3, gpu);
    expect(notes).toEqual([]);
    start(3, cpu);
    expect(notes).toEqual([expect.stringMatching(/^3 processes with 4 threads each share 8 cores/)]);
  });

  it('must fit into the free memory of their GPU', async () => {
    const bytes = await countGpuBytes([bundledTarget], 'bfloat16');
    const host = { freeBytes: () => Promise.resolve(2.5 * bytes) };
    const placed = (count: number): RecordedDevice[] =>
      seatWorkers({ count, devices: alphas }, gpu).map(({ device }) => device);
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
