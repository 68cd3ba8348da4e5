import { expect, it } from 'vitest';
import { largest, pushAll, smallest } from './vector.js';

const million = new Float64Array(1_000_000).map((_, index) => (index * 7919) % 1_000_003);

it('takes lists that are too long for arguments', () => {
  const expected = million.reduce((left, right) => Math.max(left, right));
  expect(largest(million)).toBe(expected);
  expect(smallest(million)).toBe(0);
  const list = [1];
  pushAll(list, million);
  expect(list).toHaveLength(1_000_001);
});

it('answers as Math.max and Math.min do', () => {
  expect(largest([3, 5, 4])).toBe(5);
  expect(largest([1], 2)).toBe(2);
  expect(largest([])).toBe(-Infinity);
  expect(largest([1, NaN, 2])).toBeNaN();
  expect(smallest([3, 5, 4])).toBe(3);
  expect(smallest([], 7)).toBe(7);
});
