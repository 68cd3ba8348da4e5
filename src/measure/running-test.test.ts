import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { isClearlyAbove } from './running-test.js';

describe('a test on the way', () => {
  const alternating = (low: number, high: number, count: number): number[] =>
    Array.from({ length: count }, (_, index) => (index % 2 === 0 ? low : high));

  it('says nothing of a few values', () => {
    expect(isClearlyAbove(new Array<number>(15).fill(5), 1)).toBe(false);
    expect(isClearlyAbove(new Array<number>(16).fill(5), 1)).toBe(true);
  });

  it('asks for one and a half standard errors', () => {
    // Mean 2, variance 26 / 25, standard error 0.2.
    const values = alternating(1, 3, 26);
    expect(isClearlyAbove(values, 1.69)).toBe(true);
    expect(isClearlyAbove(values, 1.72)).toBe(false);
  });

  it('never takes a lower mean for a higher one, nor beats an infinite bound', () => {
    expect(isClearlyAbove(alternating(1, 2, 60), 1.6)).toBe(false);
    expect(isClearlyAbove(alternating(1, 2, 60), Infinity)).toBe(false);
  });

  it('is wrong about a mean at the bound as rarely as it says', () => {
    const random = createRandom(7, 'running-test');
    const trials = 4000;
    let wrong = 0;
    for (let trial = 0; trial < trials; trial++) {
      const values = Array.from({ length: 40 }, () => 1 + Number(random.next() < 0.5));
      if (isClearlyAbove(values, 1.5)) wrong += 1;
    }
    expect(wrong / trials).toBeGreaterThan(0.04);
    expect(wrong / trials).toBeLessThan(0.09);
  });
});
