/** Operations over a whole axis. */
import { formatShape } from '../dimension.js';
import type { GradientRules, Tensor } from '../tensor.js';
import { createTensor, refuse, requireDType, requireLastAxis, resolveAxis } from '../tensor.js';
import {
  add,
  cast,
  divide,
  equal,
  exponential,
  multiply,
  reciprocalSquareRoot,
  subtract,
} from './elementwise.js';
import { broadcast, reshape, sum } from './shaping.js';

export { sum };

export function mean(x: Tensor, axes: readonly number[]): Tensor {
  const resolved = [...new Set(axes.map((axis) => resolveAxis('mean', x, axis)))];
  const lengths = resolved.map((axis) => x.shape[axis]!);
  const count = lengths.reduce<number>((product, length) => {
    if (typeof length === 'number') return product * length;
    return refuse('mean', `axes [${axes.join(', ')}] of ${formatShape(x.shape)} have no fixed length`, [x]);
  }, 1);
  return multiply(sum(x, axes), 1 / count);
}

/** Largest value of the last axis, which stays with length 1. */
export function reduceMaximum(x: Tensor): Tensor {
  requireDType('reduceMaximum', x, 'float32');
  requireLastAxis('reduceMaximum', x);
  return createTensor('reduceMaximum', [x], {}, { shape: [...x.shape.slice(0, -1), 1], dtype: 'float32' });
}

const overLastAxis =
  (operation: 'softmax' | 'logSoftmax') =>
  (x: Tensor): Tensor => {
    requireDType(operation, x, 'float32');
    requireLastAxis(operation, x);
    return createTensor(operation, [x], {}, { shape: x.shape, dtype: 'float32' });
  };

export const softmax = overLastAxis('softmax');
export const logSoftmax = overLastAxis('logSoftmax');

/** x / sqrt(mean(x^2) + epsilon) * scale, over the last axis. */
export function rmsNorm(x: Tensor, scale: Tensor, epsilon: number): Tensor {
  for (const tensor of [x, scale]) requireDType('rmsNorm', tensor, 'float32');
  const width = x.shape.at(-1);
  if (typeof width !== 'number' || scale.shape.length !== 1 || scale.shape[0] !== width) {
    refuse('rmsNorm', 'the scale must be one value for each of the last axis', [x, scale]);
  }
  return createTensor('rmsNorm', [x, scale], { epsilon }, { shape: x.shape, dtype: 'float32' });
}

type Reduction = 'sum' | 'reduceMaximum' | 'softmax' | 'logSoftmax' | 'rmsNorm';

export const reductionGradients: GradientRules<Reduction> = {
  sum: ({ inputs: [x] }, g) => [broadcast(g, x!.shape)],
  // Values that tie for the largest share the gradient.
  reduceMaximum: ({ inputs: [x] }, g) => {
    const isLargest = cast(equal(x!, reduceMaximum(x!)), 'float32');
    return [multiply(g, divide(isLargest, sum(isLargest, [-1])))];
  },
  softmax: ({ inputs: [x] }, g) => {
    const y = softmax(x!);
    return [multiply(y, subtract(g, sum(multiply(g, y), [-1])))];
  },
  logSoftmax: ({ inputs: [x] }, g) => [subtract(g, multiply(exponential(logSoftmax(x!)), sum(g, [-1])))],
  // With r = 1 / rms(x): d/dx = r * (g s) - x * r^3 / width * <g s, x>.
  rmsNorm: ({ inputs: [x, scale], attributes: { epsilon } }, g) => {
    const width = x!.shape.at(-1) as number;
    const inverse = reciprocalSquareRoot(add(multiply(sum(multiply(x!, x!), [-1]), 1 / width), epsilon));
    const scaled = multiply(g, scale!);
    const along = multiply(sum(multiply(scaled, x!), [-1]), multiply(inverse, multiply(inverse, 1 / width)));
    const byInput = multiply(inverse, subtract(scaled, multiply(x!, along)));
    const leading = x!.shape.slice(0, -1).map((_, axis) => axis);
    const byScale = sum(multiply(g, multiply(x!, inverse)), leading);
    return [byInput, reshape(byScale, [width])];
  },
};
