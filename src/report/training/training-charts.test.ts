import { describe, expect, it } from 'vitest';
import type { Point } from '../chart.js';
import { smoothPoints, thinPoints } from './training-charts.js';

const series = (count: number, value: (update: number) => number): readonly Point[] =>
  Array.from({ length: count }, (_, index) => ({ x: index + 1, y: value(index + 1) }));

describe('thinPoints', () => {
  it('keeps what a chart can show', () => {
    const few = series(400, (update) => update);
    expect(thinPoints(few)).toBe(few);
  });

  it('takes means of stretches of many', () => {
    const thin = thinPoints(series(1000, (update) => (update % 3 === 0 ? 3 : 0)));
    expect(thin).toHaveLength(334);
    expect(thin.slice(0, 3)).toEqual([2, 5, 8].map((update) => ({ x: update, y: 1 })));
    expect(thin.at(-1)).toEqual({ x: 1000, y: 0 });
  });
});

describe('smoothPoints', () => {
  it('keeps a straight line, and both ends of any', () => {
    const straight = series(50, (update) => 2 * update);
    smoothPoints(straight).forEach(({ y }, index) => {
      expect(y).toBeCloseTo(straight[index]!.y, 9);
    });
    const wild = series(50, (update) => (update * 7919) % 13);
    const smooth = smoothPoints(wild);
    expect([smooth[0], smooth.at(-1)]).toEqual([wild[0], wild.at(-1)]);
  });

  it('takes the mean of as many on either side', () => {
    const spike = series(51, (update) => (update === 26 ? 5 : 0));
    expect(smoothPoints(spike).map(({ y }) => y)).toEqual(
      spike.map(({ x }) => (Math.abs(x - 26) <= 2 ? 1 : 0)),
    );
  });

  it('keeps an empty series empty', () => {
    expect(smoothPoints([])).toEqual([]);
  });
});
