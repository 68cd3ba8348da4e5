import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { countRequest, countSteps } from './request-counts.js';
import type { NullHypothesis } from './sequential-test.js';
import { divideFalseAlarms, leastSteps, RequestTest, weighCounts } from './sequential-test.js';
import { createRecord, draftLength, drawSteps, rateFor } from '../../test/support/guard/traffic.js';

const hypothesis: NullHypothesis = { floors: [0.4, 0.2], sharpFloors: [0.5, 0.3], ceiling: 0.9 };

function run(steps: readonly number[]): RequestTest {
  const test = new RequestTest(hypothesis);
  for (const accepted of steps) test.step(accepted, draftLength);
  return test;
}

describe('the test within a request', () => {
  it('keeps its level at the floors, at the best moment of every request', () => {
    const random = createRandom(3, 'requests');
    const level = 0.02;
    const runs = 3000;
    let rings = 0;
    for (let index = 0; index < runs; index++) {
      const test = new RequestTest(hypothesis);
      // Steps that keep to both floors exactly: first 0.4, three 0.2 = (0.4 + 0.2) / 3.
      for (let step = 0; step < 150; step++) {
        const isFirst = random.next() < 0.4;
        test.step(isFirst ? (random.next() < 0.5 ? 2 : 1) : 0, draftLength);
      }
      rings += Number(test.peak.low >= 1 / level);
    }
    expect(rings / runs).toBeLessThan(level + 3 * Math.sqrt((level * (1 - level)) / runs));
  });

  it('finds a collapse from 2.5 to 1.1 within some tens of steps', () => {
    const random = createRandom(4, 'requests');
    const { lowLevel } = divideFalseAlarms(0.01);
    const found = Array.from({ length: 100 }, () => {
      const test = new RequestTest(hypothesis);
      const steps = drawSteps(random, { rate: rateFor(1.1), steps: 200 });
      return steps.findIndex((accepted) => (test.step(accepted, draftLength)?.low ?? 0) >= 1 / lowLevel);
    });
    expect(found.filter((step) => step >= 0 && step < 100).length).toBeGreaterThan(90);
  });

  it('finds a collapse that comes late', () => {
    const random = createRandom(5, 'requests');
    const usual = drawSteps(random, { rate: rateFor(2.5), steps: 128 });
    const fallen = drawSteps(random, { rate: rateFor(1.05), steps: 100 });
    expect(run(usual).peak.low).toBeLessThan(2);
    expect(run([...usual, ...fallen]).peak.low).toBeGreaterThan(1000);
  });

  it('says the same of steps and of their histogram, up to the beginnings', () => {
    const steps = drawSteps(createRandom(6, 'requests'), { rate: 0.1, steps: 30 });
    const { speculation } = createRecord(steps, { id: 'a' });
    const histogram = countRequest({ ...speculation!, perStepAccepted: null, perStepProposed: null })!;
    expect(histogram).toEqual(run(steps).counts);
    const whole = weighCounts(hypothesis, histogram);
    // One beginning of weight one half, and the rest not begun.
    expect(run(steps).now.low).toBeCloseTo(whole.low / 2 + 0.5, 9);
  });

  it('rings on loops', () => {
    expect(run(Array.from({ length: 150 }, () => draftLength)).peak.high).toBeGreaterThan(100);
    expect(run(drawSteps(createRandom(7, 'r'), { rate: 0.7, steps: 150 })).peak.high).toBeLessThan(2);
  });

  it('does not look at steps that proposed nothing, nor at the first few', () => {
    const test = new RequestTest(hypothesis);
    for (let step = 0; step < 50; step++) test.step(0, 0);
    expect(test.counts.steps).toBe(0);
    for (let step = 0; step < leastSteps - 1; step++) test.step(0, draftLength);
    expect(test.peak.low).toBe(1);
    expect(test.step(0, draftLength)?.low).toBe(test.peak.low);
    expect(test.peak.low).toBeGreaterThan(1);
  });
});

describe('counts of a request', () => {
  it('divides short drafts by what they proposed', () => {
    expect(countSteps([{ accepted: 2, proposed: 2 }])?.sums).toEqual([1, 1]);
    expect(countSteps([{ accepted: 2, proposed: null }])?.sums).toEqual([1, 2 / 3]);
    expect(countSteps([{ accepted: 0, proposed: 0 }])).toBeUndefined();
  });

  it('takes totals where there is nothing else, and bounds them', () => {
    const { speculation } = createRecord([0, 5, 2], { id: 'a' });
    const totals = { ...speculation!, perStepAccepted: null, perStepProposed: null, histogram: null };
    expect(countRequest(totals)).toEqual({ kind: 'totals', steps: 3, accepted: 7, sums: [7 / 5] });
    expect(countRequest({ ...totals, draftLength: null, proposed: null })?.sums).toEqual([7 / 8]);
    expect(countRequest({ ...totals, draftLength: 1 })!.sums[0]).toBeLessThanOrEqual(3);
    expect(countRequest({ ...totals, steps: 0 })).toBeUndefined();
    expect(countRequest({ ...totals, accepted: NaN })).toBeUndefined();
  });
});
