/**
 * The same values from fewer nodes, before a graph is lowered: common subexpressions and dead nodes go by rewriting,
 * operations that move nothing by the rules below. Simplify last: what ends a gradient is gone afterwards.
 *
 * Beside these, a lowering names the forms that it wants: attention spelled out, contractions planned as matrix
 * products, or whatever its own kernels ask for.
 */
import { isHalf } from '../core/half-floats.js';
import { equalDimensions, equalShapes, formatShape } from './dimension.js';
import { scatterAddRows } from './operations/indexing.js';
import { constant, sortTopologically, type Tensor, type TensorOf } from './tensor.js';
import { broadcast, reshape, transpose } from './operations/shaping.js';

/**
 * A better form of a node whose inputs are in their best form already; undefined where there is none. New nodes that
 * it is made of are rewritten in turn, so a rule must not be able to undo what another does.
 */
export type RewriteRule = (tensor: Tensor) => Tensor | undefined;

/**
 * Graph to graph by rules, from the leaves to the outputs. Nodes of the same operation, attributes and inputs become
 * one on the way: gradient rules repeat forward expressions freely, and here the repetition disappears. Nodes that no
 * output needs are not visited at all.
 */
export function rewrite(
  outputs: Readonly<Record<string, Tensor>>,
  rules: readonly RewriteRule[],
): Readonly<Record<string, Tensor>> {
  const best = new Map<Tensor, Tensor>();
  const identities = new Map<Tensor, number>();
  const distinct = new Map<string, Tensor>();

  /** The one node of all that compute the same from these inputs. */
  const unify = (tensor: Tensor): Tensor => {
    const inputs = tensor.inputs.map((input) => best.get(input)!);
    const key = describe(
      tensor,
      inputs.map((input) => identities.get(input)!),
    );
    const known = distinct.get(key);
    if (known !== undefined) return known;
    const isSame = inputs.every((input, index) => input === tensor.inputs[index]);
    const unified = isSame ? tensor : { ...tensor, inputs };
    distinct.set(key, unified);
    identities.set(unified, identities.size);
    return unified;
  };

  const settle = (root: Tensor): Tensor => {
    for (const tensor of sortTopologically([root], (node) => best.has(node))) {
      const unified = unify(tensor);
      if (!best.has(unified)) best.set(unified, improve(unified));
      best.set(tensor, best.get(unified)!);
    }
    return best.get(root)!;
  };

  const improve = (tensor: Tensor): Tensor => {
    for (const rule of rules) {
      const better = rule(tensor);
      if (better !== undefined && better !== tensor) return settle(better);
    }
    return tensor;
  };

  return Object.fromEntries(Object.entries(outputs).map(([name, tensor]) => [name, settle(tensor)]));
}

function describe({ operation, attributes, shape, dtype }: Tensor, inputs: readonly number[]): string {
  const settings = JSON.stringify(attributes, tellNumbersApart);
  return `${operation} ${settings} (${inputs.join()}) ${dtype} ${formatShape(shape)}`;
}

/** JSON writes both infinities and NaN as null, and -0 as 0. */
function tellNumbersApart(_: string, value: unknown): unknown {
  if (typeof value !== 'number' || (Number.isFinite(value) && !Object.is(value, -0))) return value;
  return Object.is(value, -0) ? '-0' : String(value);
}

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
