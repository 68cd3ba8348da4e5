import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../../core/errors.js';
import { symbol } from '../dimension.js';
import { gradient } from '../gradient.js';
import { type SegmentKind, type Tensor, constant, input } from '../tensor.js';
import { attention, rotate } from './attention.js';
import { contract, matmul, expertProduct } from './contraction.js';
import { add, cast, equal, greater, select, sigmoid } from './elementwise.js';
import {
  argmax,
  draw,
  gatherRows,
  keepLikeliest,
  oneHot,
  pick,
  scatterAddRows,
  topIndices,
  topValues,
} from './indexing.js';
import { logSoftmax, mean, reduceMaximum, rmsNorm, softmax, sum } from './reductions.js';
import { broadcast, concatenate, pad, reshape, slice, transpose } from './shaping.js';

const floats = (...shape: (number | string)[]): Tensor =>
  input(
    'x',
    shape.map((size) => (typeof size === 'string' ? symbol(size) : size)),
  );
const integers = (...shape: number[]): Tensor => input('i', shape, 'int32');
const flags = (...shape: number[]): Tensor => input('f', shape, 'bool');

const heads = { heads: 4, keyValueHeads: 2, scale: 1 };
const rows = (kind: SegmentKind, ...shape: (number | string)[]) => ({
  kind,
  keys: floats(...shape),
  values: floats(...shape),
});
const past = rows('shared', 'past', 2, 8);

const refusals: readonly (readonly [string, () => unknown, string])[] = [
  [
    'matmul of unlike matrices',
    () => matmul(floats(5, 320), floats(864, 7)),
    'matmul: inner dimensions 320 and 864 differ (given float32 [5, 320] and float32 [864, 7])',
  ],
  [
    'matmul of symbols',
    () => matmul(floats(5, 'past'), floats('new', 7)),
    'matmul: inner dimensions past and new differ (given float32 [5, past] and float32 [new, 7])',
  ],
  [
    'experts that do not divide the table',
    () => expertProduct(floats(5, 3), floats(3, 8), integers(5), 3),
    'expertProduct: 8 columns are not 3 matrices',
  ],
  [
    'rows that do not fit an expert',
    () => expertProduct(floats(5, 3), floats(3, 8), integers(5), 2, true),
    'expertProduct: needs rows of 4 values',
  ],
  ['matmul of a vector', () => matmul(floats(5), floats(5, 7)), 'matmul: needs two matrices'],
  [
    'matmul of unlike stacks',
    () => matmul(floats(2, 3, 5, 4), floats(2, 4, 4)),
    'matmul: the right side must be',
  ],
  [
    'matmul of stacks of other lengths',
    () => matmul(floats(2, 5, 4), floats(3, 4, 4)),
    'matmul: axis "batch0" is 2 and 3',
  ],
  [
    'matmul of integers',
    () => matmul(integers(2, 2), floats(2, 2)),
    'matmul: needs float32 values, found int32',
  ],
  [
    'contract with unlike axes',
    () => contract(floats(2, 3), floats(4, 5), 'a b, b c -> a c'),
    'contract: axis "b" is 3 and 4 (given float32 [2, 3] and float32 [4, 5])',
  ],
  [
    'contract with too few names',
    () => contract(floats(2, 3), floats(3), 'a, a -> a'),
    'contract: "a" names 1 axes of [2, 3]',
  ],
  [
    'contract with a lonely axis',
    () => contract(floats(2, 3), floats(3), 'a b, b -> b'),
    'contract: axis "a" stands in one place only',
  ],
  [
    'contract with an unknown axis',
    () => contract(floats(2), floats(2), 'a, a -> z'),
    'contract: axis "z" stands in one place only',
  ],
  [
    'contract with a diagonal',
    () => contract(floats(2, 2), floats(2), 'a a, a -> a'),
    'contract: axis "a" stands twice in "a a"',
  ],
  [
    'contract with a repeated output',
    () => contract(floats(2), floats(2), 'a, a -> a a'),
    'contract: axis "a" stands twice',
  ],
  [
    'contract without an arrow',
    () => contract(floats(2), floats(2), 'a, a'),
    'contract: cannot read the equation "a, a"',
  ],
  [
    'add of unlike shapes',
    () => add(floats(2, 3), floats(2, 4)),
    'add: dimensions 3 and 4 differ and neither is 1 (given float32 [2, 3] and float32 [2, 4])',
  ],
  ['add of unlike symbols', () => add(floats('a'), floats('b')), 'add: dimensions a and b differ'],
  [
    'add of halves',
    () => add(input('x', [2], 'bfloat16'), input('y', [2], 'bfloat16')),
    'add: needs a cast: bfloat16 is for storage (given bfloat16 [2] and bfloat16 [2])',
  ],
  [
    'softmax of halves',
    () => softmax(input('x', [2], 'float16')),
    'softmax: needs float32 values, found float16',
  ],
  [
    'add of unlike types',
    () => add(floats(2), integers(2)),
    'add: the two sides have different types (given float32 [2] and int32 [2])',
  ],
  ['greater of booleans', () => greater(flags(2), flags(2)), 'greater: needs numbers'],
  ['equal of unlike types', () => equal(floats(2), integers(2)), 'equal: the two sides have different types'],
  [
    'sigmoid of integers',
    () => sigmoid(integers(2)),
    'sigmoid: needs float32 values, found int32 (given int32 [2])',
  ],
  ['select by numbers', () => select(floats(2), floats(2), 0), 'select: needs bool values, found float32'],
  [
    'select of unlike types',
    () => select(flags(2), floats(2), integers(2)),
    'select: the two choices have different types',
  ],
  [
    'constant with too few values',
    () => constant([1, 2], [3]),
    'constant: 2 values do not fill the shape [3]',
  ],
  [
    'reshape to another count',
    () => reshape(floats(2, 3), [7]),
    'reshape: cannot become [7], which has another number of elements (given float32 [2, 3])',
  ],
  ['reshape of symbols', () => reshape(floats('a', 2), [symbol('a')]), 'reshape: cannot become [a]'],
  [
    'transpose by no permutation',
    () => transpose(floats(2, 3), [0, 0]),
    'transpose: order [0, 0] is not a permutation',
  ],
  [
    'broadcast to another length',
    () => broadcast(floats(2), [3]),
    'broadcast: cannot be repeated to [3] (given float32 [2])',
  ],
  ['broadcast to fewer axes', () => broadcast(floats(1, 2), [2]), 'broadcast: cannot be repeated to [2]'],
  [
    'slice beyond the end',
    () => slice(floats(4), 0, 2, 5),
    'slice: positions 2 to 5 lie outside axis 0 (given float32 [4])',
  ],
  ['slice backwards', () => slice(floats(4), 0, 3, 2), 'slice: positions 3 to 2 lie outside axis 0'],
  ['slice of a missing axis', () => slice(floats(4), 1, 0), 'slice: axis 1 does not exist in rank 1'],
  ['pad by less than nothing', () => pad(floats(4), 0, -1, 0), 'pad: cannot add -1 before and 0 after'],
  ['concatenate of nothing', () => concatenate([], 0), 'concatenate: needs at least one part'],
  [
    'concatenate of unlike rows',
    () => concatenate([floats(2, 3), floats(2, 4)], 0),
    'concatenate: parts differ outside axis 0 (given float32 [2, 3] and float32 [2, 4])',
  ],
  [
    'concatenate of unlike types',
    () => concatenate([floats(2), integers(2)], 0),
    'concatenate: parts differ outside axis 0',
  ],
  ['sum of integers', () => sum(integers(2), [0]), 'sum: needs float32 values, found int32'],
  ['sum over a missing axis', () => sum(floats(2), [-2]), 'sum: axis -2 does not exist in rank 1'],
  ['mean over an unknown length', () => mean(floats('a'), [0]), 'mean: axes [0] of [a] have no fixed length'],
  ['softmax of a scalar', () => softmax(floats()), 'softmax: needs at least one axis'],
  ['logSoftmax of a scalar', () => logSoftmax(floats()), 'logSoftmax: needs at least one axis'],
  ['reduceMaximum of a scalar', () => reduceMaximum(floats()), 'reduceMaximum: needs at least one axis'],
  ['argmax of a scalar', () => argmax(floats()), 'argmax: needs at least one axis'],
  [
    'rmsNorm with another width',
    () => rmsNorm(floats(2, 3), floats(4), 1e-5),
    'rmsNorm: the scale must be one value for each of the last axis (given float32 [2, 3] and float32 [4])',
  ],
  [
    'rmsNorm with an integer scale',
    () => rmsNorm(floats(2, 3), integers(3), 1e-5),
    'rmsNorm: needs float32 values, found int32',
  ],
  [
    'rotate with too few angles',
    () => rotate(floats(1, 3, 2, 4), floats(2, 2), floats(2, 2)),
    'rotate: needs one angle for each position and pair',
  ],
  [
    'rotate of half a head',
    () => rotate(floats(1, 3, 6), floats(3, 2), floats(3, 2)),
    'rotate: needs one angle for each position and pair (given float32 [1, 3, 6]',
  ],
  [
    'rotate of an odd width',
    () => rotate(floats(1, 3, 2, 3), floats(3, 1), floats(3, 1)),
    'rotate: needs one angle for each',
  ],
  [
    'attention of queries without heads',
    () => attention(floats(1, 3, 32), [past], floats(3, 'past'), heads),
    'attention: needs queries of four axes (given float32 [1, 3, 32])',
  ],
  [
    'attention of heads that no group divides',
    () => attention(floats(1, 3, 4, 8), [past], floats(3, 'past'), { ...heads, keyValueHeads: 3 }),
    'attention: cannot part heads into 4, grouped by 3',
  ],
  [
    'attention of fewer heads than lanes have',
    () => attention(floats(1, 3, 4, 8), [past], floats(2, 1, 3, 'past'), heads),
    'attention: cannot part heads into 4, grouped by 2 (given float32 [1, 3, 4, 8] and float32 [2, 1, 3, past])',
  ],
  [
    'attention to keys of another size',
    () => attention(floats(1, 3, 4, 8), [rows('own', 1, 5, 2, 6)], floats(3, 5), heads),
    'attention: needs own keys and values of [1, 5, 2, 8] (given float32 [1, 5, 2, 6]',
  ],
  [
    'attention to a common beginning with keys for each lane',
    () => attention(floats(1, 3, 8, 8), [rows('common', 5, 4, 8)], floats(2, 1, 3, 5), heads),
    'attention: needs common keys and values of [5, 2, 8]',
  ],
  [
    'attention to a diagonal of other rows',
    () => attention(floats(1, 3, 4, 8), [past, rows('diagonal', 1, 5, 2, 8)], floats(3, 'past'), heads),
    'attention: needs diagonal keys and values of [1, 3, 2, 8]',
  ],
  [
    'attention to a diagonal in between',
    () => attention(floats(1, 3, 4, 8), [rows('diagonal', 1, 3, 2, 8), past], floats(3, 'past'), heads),
    'attention: needs diagonals behind the others',
  ],
  [
    'attention with a mask of another width',
    () => attention(floats(1, 3, 4, 8), [past, rows('own', 1, 3, 2, 8)], floats(3, 'past'), heads),
    'attention: needs a mask of [3, past + 3] (given float32 [3, past])',
  ],
  [
    'attention with masks of another batch',
    () => attention(floats(1, 3, 4, 8), [past], floats(2, 3, 'past'), heads),
    'attention: needs a mask of [1, 3, past]',
  ],
  [
    'attention to nothing but itself',
    () => attention(floats(1, 3, 4, 8), [rows('diagonal', 1, 3, 2, 8)], floats(3, 0), heads),
    'attention: needs a mask of [3, 0]',
  ],
  [
    'gatherRows by numbers',
    () => gatherRows(floats(2, 3), floats(2)),
    'gatherRows: needs int32 values, found float32',
  ],
  ['gatherRows of a scalar', () => gatherRows(floats(), integers(2)), 'gatherRows: needs at least one axis'],
  [
    'scatterAddRows of unlike rows',
    () => scatterAddRows(floats(4, 3), integers(2), floats(2, 2)),
    'scatterAddRows: values are not one row for each index',
  ],
  [
    'pick with too many indices',
    () => pick(floats(2, 3), integers(3)),
    'pick: needs one index for each row (given float32 [2, 3] and int32 [3])',
  ],
  ['pick of a scalar', () => pick(floats(), integers()), 'pick: needs at least one axis'],
  ['oneHot of depth zero', () => oneHot(integers(2), 0), 'oneHot: depth 0 is not a positive integer'],
  [
    'topValues of too many',
    () => topValues(floats(2, 3), 4),
    'topValues: cannot take 4 of 3 (given float32 [2, 3])',
  ],
  [
    'keepLikeliest without a count for each row',
    () => keepLikeliest(floats(2, 3), integers(3), floats(2)),
    'keepLikeliest: needs a count and a mass for each row',
  ],
  [
    'keepLikeliest of a symbolic axis',
    () => keepLikeliest(floats(2, 'position'), integers(2), floats(2)),
    'keepLikeliest: the last axis must have a fixed length',
  ],
  [
    'draw without a number for each row',
    () => draw(floats(2, 3), floats(3)),
    'draw: needs one random number for each row',
  ],
  ['topIndices of none', () => topIndices(floats(2, 3), 0), 'topIndices: cannot take 0 of 3'],
  ['topIndices of a scalar', () => topIndices(floats(), 1), 'topIndices: cannot take 1 of nothing'],
  [
    'gradient of many losses',
    () => gradient(floats(2), [floats(2)]),
    'gradient: the loss must be one float32 value (given float32 [2])',
  ],
  [
    'gradient of an unknown number of losses',
    () => gradient(floats('a'), []),
    'gradient: the loss must be one float32 value (given float32 [a])',
  ],
  [
    'gradient of a whole number',
    () => gradient(cast(floats(), 'int32'), []),
    'gradient: the loss must be one float32 value (given int32 [])',
  ],
  [
    'gradient by whole numbers',
    () => gradient(floats(), [integers(2)]),
    'gradient: only floating-point values have a gradient (given int32 [2])',
  ],
];

describe('a graph that does not fit', () => {
  it.each(refusals)('%s', (_, build, message) => {
    let caught: unknown;
    try {
      build();
    } catch (error) {
      caught = error;
    }
    expect(caught).toBeInstanceOf(MistletoeError);
    expect(caught).toMatchObject({ code: 'shape' });
    expect((caught as MistletoeError).message).toContain(message);
  });

  it('is refused where pick or topValues cannot send a gradient back', () => {
    const x = floats('a');
    expect(() => gradient(pick(x, integers()), [x])).toThrow(
      'gradient of pick: the last axis must have a fixed length',
    );
    expect(() => gradient(topValues(x, 1), [x])).toThrow(
      'gradient of topValues: the last axis must have a fixed',
    );
  });
});

describe('a graph that fits', () => {
  it('knows the shapes of its results', () => {
    const [batch, position] = [symbol('batch'), symbol('position')];
    const x = input('x', [batch, position, 6]);
    expect(matmul(x, floats(6, 4)).shape).toEqual([batch, position, 4]);
    expect(add(x, floats(6)).shape).toEqual([batch, position, 6]);
    expect(gatherRows(floats(9, 5), integers(2, 3)).shape).toEqual([2, 3, 5]);
    expect(concatenate([x, x], 2).shape).toEqual([batch, position, 12]);
    expect(slice(x, 1, position).shape).toEqual([batch, 0, 6]);
    expect(topIndices(x, 2)).toMatchObject({ shape: [batch, position, 2], dtype: 'int32' });
    expect(greater(x, 0)).toMatchObject({ shape: [batch, position, 6], dtype: 'bool' });
  });

  it('adds no node that does nothing', () => {
    const x = floats(2, 3);
    expect(reshape(x, [2, 3])).toBe(x);
    expect(sum(x, [])).toBe(x);
    expect(concatenate([x], 0)).toBe(x);
  });
});
