import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { recordedAudits } from '../../test/support/measure/recorded-audits.js';
import { createRandom } from '../core/random.js';
import {
  acceptedLengthOf,
  jackknifeInterval,
  poolCounts,
  pooledAcceptedLengthInterval,
  type StepCounts,
  studentQuantile,
} from './statistics.js';

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

describe('jackknifeInterval', () => {
  it('is somewhat longer than Student’s for a mean of samples that are not skewed', () => {
    const samples = [1, 2, 3, 4, 5, 6, 7];
    const deviation = Math.sqrt(28 / 6);
    const { estimate, low, high, n } = jackknifeInterval(samples, mean);
    expect({ estimate, n }).toEqual({ estimate: 4, n: 7 });
    expect(high).toBeCloseTo(4 + ((studentQuantile(5) + 12 / 7) * deviation) / Math.sqrt(7), 10);
    expect(low).toBeCloseTo(8 - high, 10);
  });

  it('is near the normal interval for the mean of many samples', () => {
    const random = createRandom('interval-test');
    const samples = Array.from({ length: 400 }, () => random.next());
    const centre = mean(samples);
    const deviation = Math.sqrt(mean(samples.map((value) => (value - centre) ** 2)));
    const halfWidth = (1.96 * deviation) / Math.sqrt(400);
    const { low, high } = jackknifeInterval(samples, mean);
    for (const ratio of [(centre - low) / halfWidth, (high - centre) / halfWidth]) {
      expect(ratio).toBeGreaterThan(0.98);
      expect(ratio).toBeLessThan(1.05);
    }
  });

  it('collapses to the estimate where there is one sample, or where all are alike', () => {
    expect(jackknifeInterval([4], mean)).toEqual({ estimate: 4, low: 4, high: 4, n: 1 });
    expect(jackknifeInterval([0.1, 0.1, 0.1], mean)).toMatchObject({ low: mean([0.1, 0.1, 0.1]), n: 3 });
  });

  it('refuses what it cannot answer', () => {
    expect(() => jackknifeInterval([], mean)).toThrow(/0 samples/);
    expect(() => jackknifeInterval([1], () => NaN)).toThrow(/NaN/);
  });
});

describe('studentQuantile', () => {
  it.each([
    [1, 12.7062],
    [2, 4.3027],
    [3, 3.1824],
    [4, 2.7764],
    [5, 2.5706],
    [8, 2.306],
    [22, 2.0739],
    [1000, 1.9623],
  ])('with %i degrees of freedom is %d', (degrees, quantile) => {
    expect(studentQuantile(degrees)).toBeCloseTo(quantile, 4);
  });
});

describe('pooledAcceptedLengthInterval', () => {
  const counts = fc.record({ accepted: fc.nat(200), steps: fc.integer({ min: 1, max: 60 }) });

  it('holds the pooled length, and never goes below 1', () => {
    fc.assert(
      fc.property(fc.array(counts, { minLength: 1, maxLength: 12 }), (requests) => {
        const { estimate, low, high } = pooledAcceptedLengthInterval(requests);
        expect(estimate).toBe(acceptedLengthOf(poolCounts(requests)));
        expect(low).toBeGreaterThanOrEqual(1);
        expect(low).toBeLessThanOrEqual(estimate);
        expect(high).toBeGreaterThanOrEqual(estimate);
      }),
      { numRuns: 50 },
    );
  });

  it('is over requests, not steps: requests that differ widen it', () => {
    const alike = Array.from({ length: 20 }, () => ({ accepted: 30, steps: 20 }));
    const unlike = alike.map((request, index) => ({ ...request, accepted: index % 2 === 0 ? 10 : 50 }));
    expect(pooledAcceptedLengthInterval(alike)).toEqual({ estimate: 2.5, low: 2.5, high: 2.5, n: 20 });
    const { estimate, low, high } = pooledAcceptedLengthInterval(unlike);
    expect(estimate).toBe(2.5);
    expect(high - low).toBeGreaterThan(0.5);
  });

  it('leaves out requests without steps and refuses when none is left', () => {
    const requests = [
      { accepted: 4, steps: 2 },
      { accepted: 3, steps: 3 },
    ];
    const idle = { accepted: 0, steps: 0 };
    expect(pooledAcceptedLengthInterval([...requests, idle])).toEqual(pooledAcceptedLengthInterval(requests));
    expect(() => pooledAcceptedLengthInterval([idle])).toThrow(/0 samples/);
  });
});

interface Outcome {
  readonly clean: StepCounts;
  readonly attack: StepCounts;
}

const dropOf = (outcomes: readonly Outcome[]): number =>
  1 -
  acceptedLengthOf(poolCounts(outcomes.map(({ attack }) => attack))) /
    acceptedLengthOf(poolCounts(outcomes.map(({ clean }) => clean)));

/** The same prompts with every change of their steps scaled by one factor, so that the pooled drop is `drop`. */
function scaleDrop(outcomes: readonly Outcome[], drop: number): Outcome[] {
  const at = (factor: number): Outcome[] =>
    outcomes.map(({ clean, attack }) => {
      const steps = clean.steps * (1 + factor * (attack.steps / clean.steps - 1));
      return { clean, attack: { steps, accepted: attack.steps + attack.accepted - steps } };
    });
  let [low, high] = [0, 4];
  for (let halving = 0; halving < 50; halving++) {
    const middle = (low + high) / 2;
    if (dropOf(at(middle)) < drop) low = middle;
    else high = middle;
  }
  return at(low);
}

/** Audits of n prompts that are drawn from those of a recorded audit, whose own drop is the true one. */
function simulate(population: readonly Outcome[], n: number, audits = 2000) {
  const random = createRandom('coverage', String(n));
  const truth = dropOf(population);
  let [covered, below] = [0, 0];
  for (let audit = 0; audit < audits; audit++) {
    const drawn = Array.from({ length: n }, () => population[random.nextInteger(population.length)]!);
    const { low, high } = jackknifeInterval(drawn, dropOf);
    if (high < truth) below++;
    else if (low <= truth) covered++;
  }
  return { covered: covered / audits, below: below / audits };
}

describe('the interval of a drop, over audits simulated from recorded ones', () => {
  const audits = Object.entries(recordedAudits).map(([name, prompts]) => ({
    name,
    outcomes: prompts.map(([cleanSteps, cleanAccepted, steps, accepted]) => ({
      clean: { steps: cleanSteps, accepted: cleanAccepted },
      attack: { steps, accepted },
    })),
  }));

  it.each([5, 7, 10, 24])('holds the true drop in at least 93 of 100 audits of %i prompts', (n) => {
    for (const { name, outcomes } of audits) {
      expect(simulate(outcomes, n).covered, name).toBeGreaterThanOrEqual(0.93);
      expect(simulate(scaleDrop(outcomes, 0.1), n).covered, name).toBeGreaterThanOrEqual(0.93);
    }
  });

  it.each([5, 7, 10, 24])('rarely ends below a true drop of a tenth with %i prompts', (n) => {
    const shares = audits.map(({ outcomes }) => simulate(scaleDrop(outcomes, 0.1), n).below);
    expect(mean(shares)).toBeLessThan(0.03);
  });
});
