/** Reading and writing by index, and the order statistics that make indices. */
import { equalShapes, formatDimension } from '../dimension.js';
import type { GradientRules, Tensor } from '../tensor.js';
import { createTensor, refuse, requireDType, requireLastAxis } from '../tensor.js';
import { greater, multiply, select } from './elementwise.js';
import { reshape, sum } from './shaping.js';

/** Rows of a table by index: table [row, ...], indices [...] -> [...indices, ...rest of a row]. */
export function gatherRows(table: Tensor, indices: Tensor): Tensor {
  requireDType('gatherRows', indices, 'int32');
  requireLastAxis('gatherRows', table);
  const shape = [...indices.shape, ...table.shape.slice(1)];
  return createTensor('gatherRows', [table, indices], {}, { shape, dtype: table.dtype });
}

/** A table of zeros to which each value row is added at its index; the shape is that of `like`. */
export function scatterAddRows(like: Tensor, indices: Tensor, values: Tensor): Tensor {
  requireDType('scatterAddRows', indices, 'int32');
  requireDType('scatterAddRows', values, 'float32');
  requireLastAxis('scatterAddRows', like);
  if (!equalShapes(values.shape, [...indices.shape, ...like.shape.slice(1)])) {
    refuse('scatterAddRows', 'values are not one row for each index', [like, indices, values]);
  }
  return createTensor('scatterAddRows', [like, indices, values], {}, { shape: like.shape, dtype: 'float32' });
}

/** One value of the last axis for each index: x [..., n], indices [...] -> [...]. */
export function pick(x: Tensor, indices: Tensor): Tensor {
  requireDType('pick', indices, 'int32');
  requireLastAxis('pick', x);
  if (!equalShapes(x.shape.slice(0, -1), indices.shape))
    refuse('pick', 'needs one index for each row', [x, indices]);
  return createTensor('pick', [x, indices], {}, { shape: indices.shape, dtype: x.dtype });
}

/** indices [...] -> [..., depth] with a one at each index. */
export function oneHot(indices: Tensor, depth: number): Tensor {
  requireDType('oneHot', indices, 'int32');
  if (!Number.isInteger(depth) || depth < 1)
    refuse('oneHot', `depth ${depth} is not a positive integer`, [indices]);
  return createTensor('oneHot', [indices], {}, { shape: [...indices.shape, depth], dtype: 'float32' });
}

/** Index of the largest value of the last axis; the lowest index at a tie. */
export function argmax(x: Tensor): Tensor {
  requireDType('argmax', x, 'float32');
  requireLastAxis('argmax', x);
  return createTensor('argmax', [x], {}, { shape: x.shape.slice(0, -1), dtype: 'int32' });
}

/** The `count` largest values of the last axis, descending. */
export function topValues(x: Tensor, count: number): Tensor {
  const shape = topShape('topValues', x, count);
  return createTensor('topValues', [x], { count }, { shape, dtype: 'float32' });
}

/** Where the `count` largest values of the last axis stand, in the order of topValues. */
export function topIndices(x: Tensor, count: number): Tensor {
  const shape = topShape('topIndices', x, count);
  return createTensor('topIndices', [x], { count }, { shape, dtype: 'int32' });
}

function topShape(operation: string, x: Tensor, count: number) {
  requireDType(operation, x, 'float32');
  const width = x.shape.at(-1);
  if (
    width === undefined ||
    !Number.isInteger(count) ||
    count < 1 ||
    (typeof width === 'number' && count > width)
  ) {
    const among = width === undefined ? 'nothing' : formatDimension(width);
    refuse(operation, `cannot take ${count} of ${among}`, [x]);
  }
  return [...x.shape.slice(0, -1), count];
}

type Indexing = 'gatherRows' | 'scatterAddRows' | 'pick' | 'oneHot' | 'argmax' | 'topValues' | 'topIndices';

export const indexingGradients: GradientRules<Indexing> = {
  gatherRows: ({ inputs: [table, indices] }, g) => [scatterAddRows(table!, indices!, g), undefined],
  scatterAddRows: ({ inputs: [, indices] }, g) => [undefined, undefined, gatherRows(g, indices!)],
  pick: ({ inputs: [x, indices] }, g) => {
    const depth = x!.shape.at(-1);
    if (typeof depth !== 'number')
      return refuse('gradient of pick', 'the last axis must have a fixed length', [x!]);
    return [multiply(reshape(g, [...g.shape, 1]), oneHot(indices!, depth)), undefined];
  },
  oneHot: () => [undefined],
  argmax: () => [undefined],
  // topValues sorts: its gradient goes back to where each value came from.
  topValues: ({ inputs: [x], attributes: { count } }, g) => {
    const width = x!.shape.at(-1);
    if (typeof width !== 'number')
      return refuse('gradient of topValues', 'the last axis must have a fixed length', [x!]);
    const places = oneHot(topIndices(x!, count), width);
    return [scatterTop(g, places)];
  },
  topIndices: () => [undefined],
};

function scatterTop(g: Tensor, places: Tensor): Tensor {
  const weighted = multiply(reshape(g, [...g.shape, 1]), places);
  const axis = weighted.shape.length - 2;
  const shape = weighted.shape.filter((_, index) => index !== axis);
  return reshape(sum(weighted, [axis]), shape);
}

// What drawing a token needs where its scores lie. Random numbers are inputs: whoever runs a program decides by which
// stream it draws, and the same numbers give the same tokens on every runtime, but for rounding at the edge of a token.

/**
 * Of each row the `count` largest values, and of these the fewest, largest first, whose share of the softmax over them
 * reaches `mass`; a mass of 1 or more leaves nothing out. What is left out becomes -Infinity; at least one value stays,
 * and at a tie the lower index. x [..., n], count [...], mass [...] -> [..., n]
 */
export function keepLikeliest(x: Tensor, count: Tensor, mass: Tensor): Tensor {
  for (const tensor of [x, mass]) requireDType('keepLikeliest', tensor, 'float32');
  requireDType('keepLikeliest', count, 'int32');
  requireLastAxis('keepLikeliest', x);
  const rows = x.shape.slice(0, -1);
  if (!equalShapes(count.shape, rows) || !equalShapes(mass.shape, rows))
    refuse('keepLikeliest', 'needs a count and a mass for each row', [x, count, mass]);
  if (typeof x.shape.at(-1) !== 'number')
    refuse('keepLikeliest', 'the last axis must have a fixed length', [x]);
  return createTensor('keepLikeliest', [x, count, mass], {}, { shape: x.shape, dtype: 'float32' });
}

/**
 * The index at which the running sum of a row first exceeds `uniform`, from 0 up to but not 1, times the sum of the row:
 * an index drawn by weights, none of which is negative and one of which is not 0. weights [..., n], uniform [...] -> [...]
 */
export function draw(weights: Tensor, uniform: Tensor): Tensor {
  for (const tensor of [weights, uniform]) requireDType('draw', tensor, 'float32');
  requireLastAxis('draw', weights);
  if (!equalShapes(weights.shape.slice(0, -1), uniform.shape))
    refuse('draw', 'needs one random number for each row', [weights, uniform]);
  return createTensor('draw', [weights, uniform], {}, { shape: uniform.shape, dtype: 'int32' });
}

/** A random number that a float32 rounded up to 1 counts as this: the largest below. */
export const largestUniform = 1 - 2 ** -24;

export const drawingGradients: GradientRules<'keepLikeliest' | 'draw'> = {
  keepLikeliest: ({ inputs: [x, count, mass] }, g) => [
    select(greater(keepLikeliest(x!, count!, mass!), -Infinity), g, 0),
    undefined,
    undefined,
  ],
  draw: () => [undefined, undefined],
};
