/** Operations that move values without computing: each one's gradient is another of them. */
import {
  addDimensions,
  countElements,
  type Dimension,
  equalDimensions,
  equalShapes,
  formatDimension,
  formatShape,
  type Shape,
  subtractDimensions,
} from '../dimension.js';
import type { GradientRules, Tensor } from '../tensor.js';
import { createTensor, refuse, requireDType, resolveAxis } from '../tensor.js';

export { reshape };

export function transpose(x: Tensor, order: readonly number[]): Tensor {
  const sorted = [...order].sort((a, b) => a - b);
  if (sorted.length !== x.shape.length || sorted.some((axis, index) => axis !== index)) {
    refuse('transpose', `order [${order.join(', ')}] is not a permutation of its axes`, [x]);
  }
  const shape = order.map((axis) => x.shape[axis]!);
  return createTensor('transpose', [x], { order }, { shape, dtype: x.dtype });
}

/** Repeats along axes of length 1, and along new leading axes. */
export function broadcast(x: Tensor, shape: Shape): Tensor {
  const extra = shape.length - x.shape.length;
  const fits = x.shape.every((own, axis) => own === 1 || equalDimensions(own, shape[axis + extra] ?? -1));
  if (extra < 0 || !fits) refuse('broadcast', `cannot be repeated to ${formatShape(shape)}`, [x]);
  return createTensor('broadcast', [x], {}, { shape, dtype: x.dtype });
}

const isNegative = (dimension: Dimension): boolean => typeof dimension === 'number' && dimension < 0;

/** Positions start (inclusive) to end (exclusive) of one axis; without an end, to the last. */
export function slice(x: Tensor, axis: number, start: Dimension, end?: Dimension): Tensor {
  const at = resolveAxis('slice', x, axis);
  const length = x.shape[at]!;
  const stop = end ?? length;
  const kept = subtractDimensions(stop, start);
  if (isNegative(start) || isNegative(kept) || isNegative(subtractDimensions(length, stop))) {
    const range = `${formatDimension(start)} to ${formatDimension(stop)}`;
    refuse('slice', `positions ${range} lie outside axis ${at}`, [x]);
  }
  const shape = x.shape.map((dimension, index) => (index === at ? kept : dimension));
  return createTensor('slice', [x], { axis: at, start, end: stop }, { shape, dtype: x.dtype });
}

/** Zeros before and after along one axis. */
export function pad(x: Tensor, axis: number, before: Dimension, after: Dimension): Tensor {
  const at = resolveAxis('pad', x, axis);
  if (isNegative(before) || isNegative(after)) {
    refuse('pad', `cannot add ${formatDimension(before)} before and ${formatDimension(after)} after`, [x]);
  }
  const grown = addDimensions(addDimensions(x.shape[at]!, before), after);
  const shape = x.shape.map((dimension, index) => (index === at ? grown : dimension));
  return createTensor('pad', [x], { axis: at, before, after }, { shape, dtype: x.dtype });
}

export function concatenate(parts: readonly Tensor[], axis: number): Tensor {
  const [first] = parts;
  if (first === undefined) return refuse('concatenate', 'needs at least one part', parts);
  const at = resolveAxis('concatenate', first, axis);
  let length: Dimension = 0;
  for (const part of parts) {
    const fits = part.shape.every(
      (own, index) => index === at || equalDimensions(own, first.shape[index] ?? -1),
    );
    if (part.dtype !== first.dtype || part.shape.length !== first.shape.length || !fits) {
      refuse('concatenate', `parts differ outside axis ${at}`, [first, part]);
    }
    length = addDimensions(length, part.shape[at]!);
  }
  const shape = first.shape.map((dimension, index) => (index === at ? length : dimension));
  return parts.length === 1
    ? first
    : createTensor('concatenate', parts, { axis: at }, { shape, dtype: first.dtype });
}

type Shaping = 'reshape' | 'transpose' | 'broadcast' | 'slice' | 'pad' | 'concatenate';

export const shapingGradients: GradientRules<Shaping> = {
  reshape: ({ inputs: [x] }, g) => [reshape(g, x!.shape)],
  transpose: ({ attributes: { order } }, g) => [
    transpose(
      g,
      order.map((_, axis) => order.indexOf(axis)),
    ),
  ],
  broadcast: ({ inputs: [x] }, g) => [reduceTo(g, x!.shape)],
  slice: ({ inputs: [x], attributes: { axis, start, end } }, g) => [
    pad(g, axis, start, subtractDimensions(x!.shape[axis]!, end)),
  ],
  pad: ({ inputs: [x], attributes: { axis, before } }, g) => [
    slice(g, axis, before, addDimensions(x!.shape[axis]!, before)),
  ],
  concatenate: ({ inputs, attributes: { axis } }, g) => {
    let start: Dimension = 0;
    return inputs.map((part) => {
      const end: Dimension = addDimensions(start, part.shape[axis]!);
      const gradient = slice(g, axis, start, end);
      start = end;
      return gradient;
    });
  },
};

// Sums and other shapes, and with them the undoing of repetition. They stand below all other operations because every
// gradient rule with broadcasting needs them; their own rules stand with the others of their kind.
/** Sum over axes, which stay with length 1. */
export function sum(x: Tensor, axes: readonly number[]): Tensor {
  requireDType('sum', x, 'float32');
  const resolved = [...new Set(axes.map((axis) => resolveAxis('sum', x, axis)))];
  if (resolved.length === 0) return x;
  const shape = x.shape.map((dimension, axis) => (resolved.includes(axis) ? 1 : dimension));
  return createTensor('sum', [x], { axes: resolved }, { shape, dtype: 'float32' });
}

function reshape(x: Tensor, shape: Shape): Tensor {
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
