import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { argmax, logSumExp, softmaxInto, sum, topIndices } from './vector.js';

// Few distinct values, so that ties are common.
const scores = fc.array(fc.integer({ min: -4, max: 4 }), { minLength: 1, maxLength: 60 });

describe('argmax', () => {
  it('takes the lowest index of a tie', () => {
    expect(argmax([1, 3, 2, 3])).toBe(1);
    expect(argmax([-Infinity, -5, -5])).toBe(1);
    expect(argmax(Float32Array.of(-Infinity, -Infinity))).toBe(0);
  });

  it('is the first of the ranking', () => {
    fc.assert(
      fc.property(scores, (values) => {
        expect(argmax(values)).toBe(topIndices(values, 1)[0]);
      }),
    );
  });
});

describe('topIndices', () => {
  it('ranks as a full sort does: by value, then by index', () => {
    fc.assert(
      fc.property(scores, fc.integer({ min: 0, max: 70 }), (values, count) => {
        const sorted = values.map((_, index) => index).sort((a, b) => values[b]! - values[a]! || a - b);
        expect([...topIndices(values, count)]).toEqual(sorted.slice(0, count));
      }),
      { numRuns: 500 },
    );
  });

  it('ranks masked scores last', () => {
    expect([...topIndices(Float32Array.of(-Infinity, 2, -Infinity, 5), 3)]).toEqual([3, 1, 0]);
  });
});

describe('logSumExp and softmaxInto', () => {
  it('matches hand values', () => {
    expect(logSumExp([0, 0, 0, 0])).toBeCloseTo(Math.log(4), 12);
    expect(logSumExp([Math.log(1), Math.log(2), Math.log(5)])).toBeCloseTo(Math.log(8), 12);
    expect(logSumExp([])).toBe(-Infinity);
    expect(logSumExp([-Infinity, -Infinity])).toBe(-Infinity);
    const distribution = softmaxInto(Float32Array.of(Math.log(1), Math.log(3)), new Float32Array(2));
    expect(distribution[0]).toBeCloseTo(0.25, 6);
    expect(distribution[1]).toBeCloseTo(0.75, 6);
  });

  it('survives large scores and masks', () => {
    expect(logSumExp([1e4, 1e4])).toBeCloseTo(1e4 + Math.log(2), 9);
    expect([...softmaxInto(Float32Array.of(1e4, -Infinity, 1e4), new Float32Array(3))]).toEqual([
      0.5, 0, 0.5,
    ]);
  });

  it('divides by the temperature and works in place', () => {
    const logits = Float32Array.of(0, Math.log(2));
    softmaxInto(logits, logits, 0.5);
    expect(logits[1]).toBeCloseTo(0.8, 6);
  });

  it('agrees with each other', () => {
    fc.assert(
      fc.property(scores, (values) => {
        const distribution = softmaxInto(Float32Array.from(values), new Float32Array(values.length));
        expect(sum(distribution)).toBeCloseTo(1, 5);
        values.forEach((value, index) => {
          expect(distribution[index]).toBeCloseTo(Math.exp(value - logSumExp(values)), 5);
        });
      }),
    );
  });
});
