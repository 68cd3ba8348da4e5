import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Alternative } from './statistics.js';
import { testSignedRanks } from './statistics.js';

const zeros = (values: readonly number[]) => values.map(() => 0);
const test = (differences: readonly number[], alternative: Alternative) =>
  testSignedRanks(differences, zeros(differences), alternative);

/** The definition itself: all sign patterns, mid-ranks by counting. */
function enumerateSigns(differences: readonly number[]): Record<Alternative, number> {
  const nonZero = differences.filter((difference) => difference !== 0);
  const ranks = nonZero.map((own) => {
    const smaller = nonZero.filter((other) => Math.abs(other) < Math.abs(own)).length;
    const equal = nonZero.filter((other) => Math.abs(other) === Math.abs(own)).length;
    return smaller + (equal + 1) / 2;
  });
  const sumRanks = (positive: (index: number) => boolean) =>
    ranks.reduce((sum, rank, index) => (positive(index) ? sum + rank : sum), 0);
  const observed = sumRanks((index) => nonZero[index]! > 0);
  let atMost = 0;
  let atLeast = 0;
  const patterns = 2 ** nonZero.length;
  for (let signs = 0; signs < patterns; signs++) {
    const sum = sumRanks((index) => ((signs >> index) & 1) === 1);
    if (sum <= observed) atMost++;
    if (sum >= observed) atLeast++;
  }
  const less = atMost / patterns;
  const greater = atLeast / patterns;
  return { less, greater, 'two-sided': Math.min(1, 2 * Math.min(less, greater)) };
}

/** Differences 1..n of which the smallest positive ones sum up to the given statistic. */
function differencesWithStatistic(n: number, statistic: number): number[] {
  let left = statistic;
  const differences: number[] = [];
  for (let rank = n; rank >= 1; rank--) {
    const positive = rank <= left;
    if (positive) left -= rank;
    differences.push(positive ? rank : -rank);
  }
  return differences;
}

describe('testSignedRanks, exact', () => {
  it('counts what enumerating all signs counts, with ties and zeros', () => {
    const difference = fc.integer({ min: -6, max: 6 });
    fc.assert(
      fc.property(fc.array(difference, { minLength: 1, maxLength: 10 }), (differences) => {
        const expected = enumerateSigns(differences);
        for (const alternative of ['less', 'greater', 'two-sided'] as const) {
          const result = test(differences, alternative);
          expect(result.pValue).toBe(expected[alternative]);
          expect(result.method).toBe('exact');
        }
      }),
    );
  });

  // scipy 1.17.1: wilcoxon(differences, alternative=..., method='exact')
  it.each([
    ['less', 0.982330322265625],
    ['greater', 0.0206298828125],
    ['two-sided', 0.041259765625],
  ] as const)('agrees with scipy on the heights of 15 pairs of plants (%s)', (alternative, pValue) => {
    const differences = [6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75];
    expect(test(differences, alternative)).toEqual({
      n: 15,
      nNonZero: 15,
      statistic: 96,
      pValue,
      method: 'exact',
    });
  });

  // Published critical values: the largest rank sum that is still significant, one-sided.
  it.each([
    [10, 0.05, 10],
    [15, 0.05, 30],
    [20, 0.05, 60],
    [25, 0.05, 100],
    [10, 0.025, 8],
    [20, 0.025, 52],
    [25, 0.025, 89],
    [25, 0.005, 68],
  ])('has the tabulated critical value for n = %i at %f', (n, level, critical) => {
    expect(test(differencesWithStatistic(n, critical), 'less')).toMatchObject({ statistic: critical });
    expect(test(differencesWithStatistic(n, critical), 'less').pValue).toBeLessThanOrEqual(level);
    expect(test(differencesWithStatistic(n, critical + 1), 'less').pValue).toBeGreaterThan(level);
  });

  it('subtracts right from left', () => {
    const attacked = [1.4, 1.5, 1.2, 1.6, 1.7];
    const clean = [2.4, 2.6, 2.5, 2.2, 2.1];
    expect(testSignedRanks(attacked, clean, 'less')).toMatchObject({ statistic: 0, pValue: 1 / 32 });
    expect(testSignedRanks(attacked, clean, 'greater')).toMatchObject({ statistic: 0, pValue: 1 });
  });

  it('drops zeros from the ranks but counts their pairs', () => {
    expect(testSignedRanks([3, 3, 5, 7], [3, 3, 4, 5], 'greater')).toEqual({
      n: 4,
      nNonZero: 2,
      statistic: 3,
      pValue: 0.25,
      method: 'exact',
    });
  });

  it.each([
    ['no pairs', []],
    ['equal pairs', [2, 3, 4]],
  ])('claims nothing from %s', (_, values) => {
    for (const alternative of ['less', 'greater', 'two-sided'] as const) {
      expect(testSignedRanks(values, values, alternative)).toMatchObject({
        nNonZero: 0,
        statistic: 0,
        pValue: 1,
      });
    }
  });
});

describe('testSignedRanks, normal approximation', () => {
  const range = (n: number) => Array.from({ length: n }, (_, index) => index + 1);

  // scipy 1.17.1: wilcoxon(differences, alternative=..., method='approx', correction=True)
  it.each([
    [
      'without ties',
      range(30).map((i) => (i % 3 === 0 ? -i : i)),
      300,
      [0.9190405790019791, 0.08408948986167625, 0.1681789797233525],
    ],
    [
      'with ties and zeros',
      range(40).map((i) => (i % 3 === 0 ? -1 : 1) * (i % 7)),
      409,
      [0.9397782519558584, 0.062210127095074355, 0.12442025419014871],
    ],
    ['far in the tail', range(60), 1830, [0.999999999992056, 8.356642848263271e-12, 1.6713285696526542e-11]],
  ] as const)('agrees with scipy %s', (_, differences, statistic, [less, greater, twoSided]) => {
    const expectRatio = (actual: number, expected: number) => {
      expect(actual / expected).toBeCloseTo(1, 10);
    };
    expect(test(differences, 'less')).toMatchObject({ statistic, method: 'normal' });
    expectRatio(test(differences, 'less').pValue, less);
    expectRatio(test(differences, 'greater').pValue, greater);
    expectRatio(test(differences, 'two-sided').pValue, twoSided);
  });

  it('takes over where the exact count ends', () => {
    expect(test(range(25), 'less').method).toBe('exact');
    expect(test(range(26), 'less').method).toBe('normal');
    expect(test([...range(25), 0, 0], 'less').method).toBe('exact');
  });

  it('never leaves [0, 1] and mirrors when the sides are exchanged', () => {
    const values = fc.array(fc.integer({ min: -9, max: 9 }), { minLength: 20, maxLength: 60 });
    fc.assert(
      fc.property(values, (differences) => {
        const negated = differences.map((difference) => -difference);
        const { pValue } = test(differences, 'less');
        expect(pValue).toBeGreaterThanOrEqual(0);
        expect(pValue).toBeLessThanOrEqual(1);
        expect(test(negated, 'greater').pValue).toBeCloseTo(pValue, 12);
        expect(test(negated, 'two-sided').pValue).toBeCloseTo(test(differences, 'two-sided').pValue, 12);
      }),
    );
  });
});
