import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { Baseline } from './baseline.js';
import type { Lesson } from './baseline-cell.js';
import { BaselineCell } from './baseline-cell.js';
import { findFloors, findQuantiles } from './baseline-floors.js';
import { divideFalseAlarms } from './sequential-test.js';

const levels = divideFalseAlarms(0.02);
const population = { model: 'm', route: '/r', sort: 'reported:steps' };
const lesson = (share: number, atMs = 0, more: Partial<Lesson> = {}): Lesson => ({
  ...{ atMs, steps: 100, length: 1 + 2 * share, shares: [share, share / 2], promptTokens: 10 },
  ...more,
});

describe('floors', () => {
  it('keep the promised share of further requests above them', () => {
    const random = createRandom(1, 'floors');
    const draw = (): readonly number[] => {
      const share = random.next() ** 2;
      return [share, share * random.next()];
    };
    const allowance = 0.05;
    let below = 0;
    const rounds = 400;
    for (let round = 0; round < rounds; round++) {
      const samples = Array.from({ length: 200 }, () => ({ weight: 1, shares: draw() }));
      const { floors, isGrown } = findFloors(samples, allowance, 0)!;
      expect(isGrown).toBe(true);
      for (let next = 0; next < 10; next++) {
        const shares = draw();
        below += Number(shares.some((value, index) => value < floors[index]!));
      }
    }
    const share = below / (10 * rounds);
    expect(share).toBeLessThan(allowance + 3 * Math.sqrt(allowance / (10 * rounds)));
    expect(share).toBeGreaterThan(allowance / 4);
  });

  it('lie below everything seen while that is little', () => {
    const samples = [0.5, 0.6, 0.7].map((share) => ({ weight: 1, shares: [share] }));
    const { floors, isGrown } = findFloors(samples, 0.005, 0)!;
    expect(isGrown).toBe(false);
    expect(floors[0]).toBeLessThan(0.1);
    expect(findFloors([], 0.1, 0)).toBeUndefined();
  });

  it('fall by flagged requests, but no flood of them opens them further', () => {
    const samples = Array.from({ length: 1000 }, (_, index) => ({ weight: 1, shares: [index / 1000] }));
    const floor = (flagged: number): number => findFloors(samples, 0.02, flagged)!.floors[0]!;
    expect(floor(0)).toBeCloseTo(0.019, 6);
    expect(floor(10)).toBeCloseTo(0.009, 2);
    expect(floor(15)).toBeCloseTo(0.004, 2);
    expect(floor(400)).toBeGreaterThanOrEqual(0.004);
  });

  it('weigh quantiles', () => {
    const values = [3, 1, 2].map((value) => ({ value, weight: value === 3 ? 10 : 1 }));
    expect(findQuantiles(values, [0.5, 0.01])).toEqual([3, 1]);
    expect(findQuantiles([], [0.5])[0]).toBeNaN();
  });
});

describe('a cell of the baseline', () => {
  it('follows what drifts slowly', () => {
    const cell = new BaselineCell({ requests: 200, ms: 1e12 });
    const random = createRandom(2, 'drift');
    for (let index = 0; index < 1500; index++)
      cell.learn(lesson(0.8 - (0.4 * index) / 1500 + 0.1 * random.next(), index));
    expect(cell.band(levels)!.middle).toBeLessThan(2.1);
    expect(cell.hypothesis(levels)!.floors[0]).toBeLessThan(0.45);
  });

  it('knows answers of different length apart', () => {
    const cell = new BaselineCell({ requests: 1000, ms: 1e12 });
    for (let index = 0; index < 50; index++) {
      cell.learn(lesson(0.3, index, { steps: 30 }));
      cell.learn(lesson(0.9, index, { steps: 500 }));
    }
    expect(cell.band(levels, 40)!.middle).toBeCloseTo(1.6, 6);
    expect(cell.band(levels, 400)!.middle).toBeCloseTo(2.8, 6);
    expect(cell.band(levels, 100)).toEqual(cell.band(levels)); // never seen: those of any length
  });

  it('does not age while nothing comes, and learns no faster than its half-lives fit together', () => {
    const cell = new BaselineCell({ requests: 1000, ms: 1_000_000 });
    for (let index = 0; index < 1100; index++) cell.learn(lesson(0.5 + index / 1e5, index));
    const before = cell.hypothesis(levels);
    expect(cell.takeTurn(10_000_000)).toBe(true);
    expect(cell.hypothesis(levels)).toEqual(before);
    const turns = Array.from({ length: 100 }, (_, index) => cell.takeTurn(10_000_001 + 100 * index));
    expect(turns.filter(Boolean).length).toBeLessThan(12);
  });
});

describe('the baseline', () => {
  const fill = (baseline: Baseline, count: number, stream = population, base = 0.5): void => {
    for (let index = 0; index < count; index++)
      baseline.offer(stream, 't', lesson(base + (index % 40) / 100, index));
  };

  it('says nothing before it has seen anything, and is unsure while it is young', () => {
    const baseline = new Baseline({ levels });
    expect(baseline.expect(population)).toBeUndefined();
    fill(baseline, 80);
    expect(baseline.expect(population)).toMatchObject({ from: 'route', isGrown: false });
    fill(baseline, 400);
    expect(baseline.expect(population)).toMatchObject({ from: 'route', isGrown: true });
  });

  it('lends a young route what the model has shown, and a young model only what fits it', () => {
    const baseline = new Baseline({ levels });
    fill(baseline, 500);
    expect(baseline.expect({ ...population, route: '/new' })?.from).toBe('model');
    const other = { ...population, model: 'other' };
    expect(baseline.expect(other)).toBeUndefined();
    fill(baseline, 30, other);
    expect(baseline.expect(other)?.from).toBe('everything');
    const low = { ...population, model: 'low' };
    fill(baseline, 36, low, 0);
    expect(baseline.expect(low)).toBeUndefined();
    expect(baseline.expect({ ...population, sort: 'estimated:steps' })).toBeUndefined();
  });

  it('drops what waits when its tenant rings meanwhile', () => {
    let isHeld = false;
    const baseline = new Baseline({ levels, isHeld: (tenant) => isHeld && tenant === 'bad' });
    for (let index = 0; index < 10; index++) baseline.offer(population, 'bad', lesson(0.1, index));
    isHeld = true;
    for (let index = 0; index < 100; index++) baseline.offer(population, 'good', lesson(0.6, 100 + index));
    expect(baseline.expect(population)!.band().low).toBeCloseTo(2.2, 6);
  });

  it('is the same after a restart, and forgets a model', () => {
    const baseline = new Baseline({ levels });
    fill(baseline, 500);
    const copy = new Baseline({ levels });
    copy.restore(JSON.parse(JSON.stringify(baseline.save())) as ReturnType<Baseline['save']>);
    expect(copy.expect(population)!.hypothesis).toEqual(baseline.expect(population)!.hypothesis);
    expect(copy.expect(population)!.band()).toEqual(baseline.expect(population)!.band());
    copy.forget('m');
    expect(copy.expect(population)).toBeUndefined();
  });
});
