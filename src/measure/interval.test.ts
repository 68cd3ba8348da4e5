import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { bootstrapInterval, pooledAcceptedLengthInterval, type StepCounts } from './statistics.js';

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const pooled = (requests: readonly StepCounts[]) =>
  1 +
  requests.reduce((sum, request) => sum + request.accepted, 0) /
    requests.reduce((sum, request) => sum + request.steps, 0);

describe('bootstrapInterval', () => {
  it('gives the same interval for the same seed and another for another', () => {
    const samples = [3.14, 1.59, 2.65, 3.58, 9.79, 3.23, 8.46];
    const first = bootstrapInterval(samples, mean, { seed: 7 });
    expect(bootstrapInterval(samples, mean, { seed: 7 })).toEqual(first);
    expect(bootstrapInterval(samples, mean, { seed: 8 })).not.toEqual(first);
    expect(first).toMatchObject({ estimate: mean(samples), n: 7 });
  });

  it('is near the normal interval for the mean of many samples', () => {
    const random = createRandom('bootstrap-test');
    const samples = Array.from({ length: 400 }, () => random.next());
    const centre = mean(samples);
    const deviation = Math.sqrt(mean(samples.map((value) => (value - centre) ** 2)));
    const halfWidth = (1.96 * deviation) / Math.sqrt(400);
    const { low, high } = bootstrapInterval(samples, mean, { seed: 1, resamples: 4000 });
    for (const ratio of [(centre - low) / halfWidth, (high - centre) / halfWidth]) {
      expect(ratio).toBeGreaterThan(0.9);
      expect(ratio).toBeLessThan(1.1);
    }
  });

  it('covers the true mean about as often as it says', () => {
    const random = createRandom('coverage');
    let covered = 0;
    for (let trial = 0; trial < 300; trial++) {
      const samples = Array.from({ length: 40 }, () => random.next());
      const { low, high } = bootstrapInterval(samples, mean, { seed: trial, resamples: 300, level: 0.9 });
      if (low <= 0.5 && 0.5 <= high) covered++;
    }
    expect(covered).toBeGreaterThan(300 * 0.83);
    expect(covered).toBeLessThan(300 * 0.97);
  });

  it('narrows with the level', () => {
    const samples = [3, 1, 4, 1, 5, 9, 2, 6];
    const wide = bootstrapInterval(samples, mean, { seed: 1, level: 0.99 });
    const narrow = bootstrapInterval(samples, mean, { seed: 1, level: 0.5 });
    expect(wide.low).toBeLessThan(narrow.low);
    expect(wide.high).toBeGreaterThan(narrow.high);
  });

  it('collapses to the estimate when there is one sample', () => {
    expect(bootstrapInterval([4], mean, { seed: 1 })).toEqual({ estimate: 4, low: 4, high: 4, n: 1 });
  });

  it('refuses what it cannot answer', () => {
    expect(() => bootstrapInterval([], mean, { seed: 1 })).toThrow(/0 samples/);
    expect(() => bootstrapInterval([1], () => NaN, { seed: 1 })).toThrow(/NaN/);
  });
});

describe('pooledAcceptedLengthInterval', () => {
  const counts = fc.record({ accepted: fc.nat(200), steps: fc.integer({ min: 1, max: 60 }) });

  it('is the generic bootstrap of the pooled ratio, number for number', () => {
    fc.assert(
      fc.property(fc.array(counts, { minLength: 1, maxLength: 12 }), fc.nat(), (requests, seed) => {
        const options = { seed, resamples: 50 };
        expect(pooledAcceptedLengthInterval(requests, options)).toEqual(
          bootstrapInterval(requests, pooled, options),
        );
      }),
      { numRuns: 30 },
    );
  });

  it('resamples requests, not steps: requests that differ widen it', () => {
    const alike = Array.from({ length: 20 }, () => ({ accepted: 30, steps: 20 }));
    const unlike = alike.map((request, index) => ({ ...request, accepted: index % 2 === 0 ? 10 : 50 }));
    const options = { seed: 3 };
    expect(pooledAcceptedLengthInterval(alike, options)).toEqual({
      estimate: 2.5,
      low: 2.5,
      high: 2.5,
      n: 20,
    });
    const { estimate, low, high } = pooledAcceptedLengthInterval(unlike, options);
    expect(estimate).toBe(2.5);
    expect(high - low).toBeGreaterThan(0.5);
  });

  it('leaves out requests without steps and refuses when none is left', () => {
    const requests = [
      { accepted: 4, steps: 2 },
      { accepted: 3, steps: 3 },
    ];
    const idle = { accepted: 0, steps: 0 };
    const interval = pooledAcceptedLengthInterval(requests, { seed: 1 });
    expect(pooledAcceptedLengthInterval([...requests, idle], { seed: 1 })).toEqual(interval);
    expect(() => pooledAcceptedLengthInterval([idle], { seed: 1 })).toThrow(/0 samples/);
  });
});
