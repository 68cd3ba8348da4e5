/**
 * What drawing a token needs where its scores lie. Random numbers are inputs: whoever runs a program decides by which
 * stream it draws, and the same numbers give the same tokens on every runtime, but for rounding at the edge of a token.
 */
import { equalShapes } from '../dimension.js';
import type { GradientRules, Tensor } from '../tensor.js';
import { createTensor, refuse, requireDType, requireLastAxis } from '../tensor.js';
import { greater, select } from './elementwise.js';

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
