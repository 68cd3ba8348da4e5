/**
 * The same values from fewer nodes, before a graph is lowered: common subexpressions and dead nodes go by rewriting,
 * operations that move nothing by the rules below. Simplify last: what ends a gradient is gone afterwards.
 *
 * Beside these, a lowering names the forms that it wants: attention spelled out, contractions planned as matrix
 * products, or whatever its own kernels ask for.
 */
import { isHalf } from '../core/half-floats.js';
import { equalDimensions, equalShapes } from './dimension.js';
import { constant } from './operations/leaves.js';
import { broadcast, reshape, transpose } from './operations/shaping.js';
import { scatterAddRows } from './operations/indexing.js';
import { rewrite, type RewriteRule } from './rewrite.js';
import type { Tensor, TensorOf } from './tensor.js';

export function simplify(
  outputs: Readonly<Record<string, Tensor>>,
  forms: readonly RewriteRule[] = [],
): Readonly<Record<string, Tensor>> {
  return rewrite(outputs, [fold, ...forms]);
}

const fold: RewriteRule = (tensor) => {
  const [x] = tensor.inputs;
  switch (tensor.operation) {
    case 'stopGradient':
      return x;
    case 'cast':
      return foldCast(tensor);
    case 'broadcast':
    case 'sum':
      return equalShapes(x!.shape, tensor.shape) ? x : undefined;
    case 'reshape':
      return foldReshape(tensor);
    case 'transpose':
      return foldTranspose(tensor);
    case 'slice':
      return equalDimensions(x!.shape[tensor.attributes.axis]!, tensor.shape[tensor.attributes.axis]!)
        ? x
        : undefined;
    case 'pad':
      return tensor.attributes.before === 0 && tensor.attributes.after === 0 ? x : undefined;
    case 'scatterAddRows':
      return forgetTable(tensor);
    default:
      return undefined;
  }
};

/** To the type it had, or to a wider one and back: the value is the same. */
function foldCast({ inputs: [x], dtype }: TensorOf<'cast'>): Tensor | undefined {
  if (x!.dtype === dtype) return x;
  const source = x!.operation === 'cast' && x.dtype === 'float32' ? x.inputs[0]! : undefined;
  return source?.dtype === dtype && isHalf(dtype) ? source : undefined;
}

/** Reshaping twice is reshaping once, and to the shape it had is nothing. */
function foldReshape({ inputs: [x], shape }: TensorOf<'reshape'>): Tensor | undefined {
  if (x!.operation === 'reshape') return reshape(x.inputs[0]!, shape);
  return equalShapes(x!.shape, shape) ? x : undefined;
}

/** Two orders are one, the order that there was is none, and where only axes of length 1 move, values do not. */
function foldTranspose({ inputs: [x], attributes: { order }, shape }: TensorOf<'transpose'>) {
  if (x!.operation === 'transpose') {
    const { inputs, attributes } = x;
    return transpose(
      inputs[0]!,
      order.map((axis) => attributes.order[axis]!),
    );
  }
  const moved = order.filter((axis) => x!.shape[axis] !== 1);
  return moved.every((axis, index) => index === 0 || axis > moved[index - 1]!)
    ? reshape(x!, shape)
    : undefined;
}

/** Of the table, only the shape is needed: what it was computed from may then be dead. */
function forgetTable({ inputs: [table, indices, values] }: TensorOf<'scatterAddRows'>) {
  const isZero = table!.operation === 'broadcast' && isZeroScalar(table.inputs[0]!);
  return isZero ? undefined : scatterAddRows(broadcast(constant(0), table!.shape), indices!, values!);
}

const isZeroScalar = (x: Tensor): boolean =>
  x.operation === 'constant' && x.shape.length === 0 && x.attributes.values[0] === 0;
