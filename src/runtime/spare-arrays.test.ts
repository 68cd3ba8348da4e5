import { expect, it } from 'vitest';
import { allocateHostRows } from './row-buffer.js';
import { keepArray, takeArray } from './spare-arrays.js';

it('hands out the memory of freed buffers again, cleared, and once for all of their views', () => {
  const first = allocateHostRows(3, 701);
  const { data } = first;
  data.fill(7);
  first.rows(1, 2).free();
  first.free();
  const [second, third] = [allocateHostRows(3, 701), allocateHostRows(3, 701)];
  expect(second.data).toBe(data);
  expect(second.data.every((value) => value === 0)).toBe(true);
  expect(third.data).not.toBe(data);
});

it('keeps no more than its limit, and drops the length that was given back longest ago', () => {
  const old = takeArray(977);
  keepArray(old);
  const large = Array.from({ length: 5 }, (_, index) => new Float32Array(2 ** 21 - index));
  for (const array of large) keepArray(array);
  expect(takeArray(977) === old).toBe(false);
  expect(takeArray(large[0]!.length) === large[0]).toBe(false);
  expect(takeArray(large[4]!.length) === large[4]).toBe(true);
});

it('leaves very large arrays to the garbage collector', () => {
  const large = new Float32Array(2 ** 21 + 1);
  keepArray(large);
  expect(takeArray(large.length) === large).toBe(false);
});
