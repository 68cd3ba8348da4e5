import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { adjustHolm } from './statistics.js';

const probability = fc.double({ min: 0, max: 1, noNaN: true });
const pValues = fc.array(fc.oneof(probability, fc.constantFrom(0, 0.01, 0.5, 1)), { maxLength: 12 });

function expectClose(actual: readonly number[], expected: readonly number[]): void {
  expect(actual).toHaveLength(expected.length);
  for (const [index, value] of expected.entries()) expect(actual[index]).toBeCloseTo(value, 12);
}

describe('adjustHolm', () => {
  it.each([
    // 4 x 0.005, 3 x 0.01, 2 x 0.03, and 0.04 may not fall below 0.06.
    [
      [0.01, 0.04, 0.03, 0.005],
      [0.03, 0.06, 0.06, 0.02],
    ],
    // 3 x 0.2, 2 x 0.6 capped, 1 x 0.9 raised.
    [
      [0.9, 0.2, 0.6],
      [1, 0.6, 1],
    ],
    // Equals stay equal.
    [
      [0.02, 0.02, 0.02],
      [0.06, 0.06, 0.06],
    ],
    [[0.03], [0.03]],
    [
      [0, 1],
      [0, 1],
    ],
    [[], []],
  ])('of %j is %j', (raw, expected) => {
    expectClose(adjustHolm(raw), expected);
  });

  // 8 x 0.001, 7 x 0.008, 6 x 0.039; the products behind that (0.205, 0.168, 0.18, 0.148, 0.205) are all smaller.
  it('climbs through eight tests and never steps back', () => {
    expectClose(
      adjustHolm([0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205]),
      [0.008, 0.056, 0.234, 0.234, 0.234, 0.234, 0.234, 0.234],
    );
  });

  it('leaves a test that was not made where it is, and does not count it', () => {
    const [first, second, third] = adjustHolm([0.01, NaN, 0.03]);
    expect(first).toBeCloseTo(0.02, 12);
    expect(second).toBeNaN();
    expect(third).toBeCloseTo(0.03, 12);
    expect(adjustHolm([NaN, NaN])).toEqual([NaN, NaN]);
  });

  it('is between the raw value and the Bonferroni one, and keeps the order', () => {
    fc.assert(
      fc.property(pValues, (raw) => {
        const adjusted = adjustHolm(raw);
        for (const [i, value] of adjusted.entries()) {
          expect(value).toBeGreaterThanOrEqual(raw[i]!);
          expect(value).toBeLessThanOrEqual(Math.min(1, raw.length * raw[i]!));
          for (const [j, other] of adjusted.entries()) {
            if (raw[i]! <= raw[j]!) expect(value).toBeLessThanOrEqual(other);
          }
        }
      }),
    );
  });

  it('rejects what stepping down by hand rejects', () => {
    fc.assert(
      fc.property(pValues, fc.constantFrom(0.01, 0.05, 0.2), (raw, level) => {
        const sorted = [...raw].sort((a, b) => a - b);
        const stop = sorted.findIndex((value, rank) => (raw.length - rank) * value > level);
        const rejected = adjustHolm(raw).filter((value) => value <= level);
        expect(rejected).toHaveLength(stop < 0 ? raw.length : stop);
      }),
    );
  });
});
