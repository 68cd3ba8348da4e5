/**
 * Sums and other shapes, and with them the undoing of repetition. They stand below all other operations because every
 * gradient rule with broadcasting needs them; their own rules stand with the others of their kind.
 */
import { countElements, equalDimensions, equalShapes, formatShape, type Shape } from '../dimension.js';
import { createTensor, refuse, requireDType, resolveAxis, type Tensor } from '../tensor.js';

/** Sum over axes, which stay with length 1. */
export function sum(x: Tensor, axes: readonly number[]): Tensor {
  requireDType('sum', x, 'float32');
  const resolved = [...new Set(axes.map((axis) => resolveAxis('sum', x, axis)))];
  if (resolved.length === 0) return x;
  const shape = x.shape.map((dimension, axis) => (resolved.includes(axis) ? 1 : dimension));
  return createTensor('sum', [x], { axes: resolved }, { shape, dtype: 'float32' });
}

export function reshape(x: Tensor, shape: Shape): Tensor {
  if (equalShapes(x.shape, shape)) return x;
  if (!equalDimensions(countElements(x.shape), countElements(shape))) {
    refuse('reshape', `cannot become ${formatShape(shape)}, which has another number of elements`, [x]);
  }
  return createTensor('reshape', [x], {}, { shape, dtype: x.dtype });
}

/** Undoes broadcasting: sums a gradient over the axes that its operand was repeated along. */
export function reduceTo(gradient: Tensor, shape: Shape): Tensor {
  if (equalShapes(gradient.shape, shape)) return gradient;
  const extra = gradient.shape.length - shape.length;
  const axes = gradient.shape.flatMap((dimension, axis) => {
    const own = shape[axis - extra];
    return own === undefined || (own === 1 && dimension !== 1) ? [axis] : [];
  });
  return reshape(axes.length > 0 ? sum(gradient, axes) : gradient, shape);
}
