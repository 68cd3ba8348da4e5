import { describe, expect, it } from 'vitest';
import type { RecordedRun } from './recording-shelf.js';
import { RecordingShelf } from './recording-shelf.js';

function createRuns(count: number) {
  const freed: number[] = [];
  const runs = Array.from({ length: count }, (_, index): RecordedRun => ({
    recording: { free: () => freed.push(index) },
  }));
  return { freed, runs };
}

describe('recorded runs', () => {
  it('are kept up to a number, the least recently used goes', () => {
    const { freed, runs } = createRuns(4);
    const shelf = new RecordingShelf(2);
    shelf.use(runs[0]!);
    shelf.use(runs[1]!);
    shelf.use(runs[0]!);
    shelf.use(runs[2]!);
    expect(freed).toEqual([1]);
    expect(runs.map(({ recording }) => recording !== undefined)).toEqual([true, false, true, true]);
    shelf.use(runs[3]!);
    expect(freed).toEqual([1, 0]);
    expect(shelf.size).toBe(2);
  });

  it('are freed once, however often they are dropped', () => {
    const { freed, runs } = createRuns(1);
    const shelf = new RecordingShelf(2);
    shelf.use(runs[0]!);
    shelf.drop(runs[0]!);
    shelf.drop(runs[0]!);
    expect(freed).toEqual([0]);
    expect(shelf.size).toBe(0);
  });

  it('are all freed at the end', () => {
    const { freed, runs } = createRuns(2);
    const shelf = new RecordingShelf(2);
    runs.forEach((run) => {
      shelf.use(run);
    });
    shelf.clear();
    expect([freed, shelf.size]).toEqual([[0, 1], 0]);
  });
});
