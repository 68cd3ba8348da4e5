import { describe, expect, it } from 'vitest';
import type { Series } from './training-series.js';
import { smoothSeries, thinSeries } from './training-series.js';

const series = (count: number, value: (update: number) => number): Series =>
  Array.from({ length: count }, (_, index) => ({ update: index + 1, value: value(index + 1) }));

describe('thinSeries', () => {
  it('leaves what can be shown as it is', () => {
    const few = series(400, (update) => update);
    expect(thinSeries(few)).toBe(few);
  });

  it('takes means of stretches of many', () => {
    const thin = thinSeries(series(1000, (update) => (update % 3 === 0 ? 3 : 0)));
    expect(thin).toHaveLength(334);
    expect(thin.slice(0, 3)).toEqual([2, 5, 8].map((update) => ({ update, value: 1 })));
    expect(thin.at(-1)).toEqual({ update: 1000, value: 0 });
  });
});

describe('smoothSeries', () => {
  it('keeps a straight line, and both ends of any', () => {
    const straight = series(50, (update) => 2 * update);
    smoothSeries(straight).forEach(({ value }, index) => {
      expect(value).toBeCloseTo(straight[index]!.value, 9);
    });
    const wild = series(50, (update) => (update * 7919) % 13);
    const smooth = smoothSeries(wild);
    expect([smooth[0], smooth.at(-1)]).toEqual([wild[0], wild.at(-1)]);
  });

  it('takes the mean of as many on either side', () => {
    const spike = series(51, (update) => (update === 26 ? 5 : 0));
    expect(smoothSeries(spike).map(({ value }) => value)).toEqual(
      spike.map(({ update }) => (Math.abs(update - 26) <= 2 ? 1 : 0)),
    );
  });

  it('has nothing to say of nothing', () => {
    expect(smoothSeries([])).toEqual([]);
  });
});
