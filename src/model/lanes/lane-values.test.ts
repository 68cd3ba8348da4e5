import { expect, it } from 'vitest';
import { float32 } from '../../runtime/program.js';
import { blocked } from '../attention-inputs.js';
import { mergeMasks } from './lane-values.js';

const x = blocked;

it('lays masks of different pasts side by side', () => {
  const places = { lanes: 3, laneOf: [2, 0], pastOf: [3, 2] };
  // prettier-ignore
  const masks = [
    float32(Float32Array.of(x, 1, 2, 3), [1, 4]),
    float32(Float32Array.of(x, 4, 5, x, x, 6, 7, 8), [2, 4]),
  ];
  const { data, shape } = mergeMasks(masks, places);
  expect(shape).toEqual([3, 1, 2, 5]);
  // prettier-ignore
  expect([...data]).toEqual([...Float32Array.of(
    x, 4, x, 5, x,
    x, 6, x, 7, 8,
    x, x, x, x, x,
    x, x, x, x, x,
    x, 1, 2, 3, x,
    x, x, x, x, x,
  )]);
});

it('parts masks between a prefix and lanes, whose dummies nobody sees', () => {
  const places = { lanes: 2, laneOf: [0, 1], pastOf: [3, 1], prefixOf: [2, 3] };
  // prettier-ignore
  const masks = [
    float32(Float32Array.of(x, 1, 2, 3, 4), [1, 5]), // one row of the prefix, two of its own
    float32(Float32Array.of(x, 5, 6, 7), [1, 4]), // two of the prefix, none of its own
  ];
  const { data, shape } = mergeMasks(masks, places);
  expect(shape).toEqual([2, 1, 1, 7]);
  // prettier-ignore
  expect([...data]).toEqual([...Float32Array.of(
    x, 1, x, x, 2, 3, 4,
    x, 5, 6, x, x, x, 7,
  )]);
});
