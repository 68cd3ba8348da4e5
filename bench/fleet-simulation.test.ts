import { describe, expect, it } from 'vitest';
import type { SimulatedFleet } from './fleet-simulation.js';
import { simulate } from './fleet-simulation.js';

const run = { pairs: 100, searchesPerPair: 5, controlsMs: [1000], searchesMs: [10_000] };
const fleet: SimulatedFleet = {
  ...{ workers: 1, loadMs: 0, failuresPerWorkerHour: 0, leaseMs: 30_000, redisMs: 0, submitterMs: 0 },
};
const workMs = 100 * 51_000;

describe('a simulated run', () => {
  it('takes as long as its units on one worker, and no less than their share on many', () => {
    expect(simulate(run, fleet).wallMs).toBe(workMs);
    const ten = simulate(run, { ...fleet, workers: 10 });
    expect(ten.wallMs).toBeGreaterThanOrEqual(ten.idealMs);
    expect(ten.idealMs).toBe(workMs / 10);
    expect(ten.wallMs).toBeLessThan(1.1 * ten.idealMs);
    expect(ten.limit).toBe('workers');
  });

  it('is limited by stragglers on more workers than units', () => {
    const many = simulate(run, { ...fleet, workers: 1000 });
    expect([many.wallMs, many.limit]).toEqual([11_000, 'stragglers']);
  });

  it('is limited by what every unit passes one at a time', () => {
    expect(simulate(run, { ...fleet, workers: 1000, submitterMs: 500 }).limit).toBe('submitter');
    const redis = simulate(run, { ...fleet, workers: 1000, redisMs: 500 });
    expect(redis.limit).toBe('Redis');
    expect(redis.wallMs).toBeGreaterThanOrEqual(2 * 600 * 500);
  });

  it('repeats what dead workers had begun, and ends all the same', () => {
    const failing = simulate(run, { ...fleet, workers: 8, failuresPerWorkerHour: 20, loadMs: 5000 });
    const safe = simulate(run, { ...fleet, workers: 8, loadMs: 5000 });
    expect(failing.deaths).toBeGreaterThan(5);
    expect(failing.wallMs).toBeGreaterThan(safe.wallMs);
  });
});
