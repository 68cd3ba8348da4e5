/**
 * Slices taken before the work instead of behind it: where all that read a tensor want the same stretch of one axis, only
 * that stretch is computed, and so on down to where somebody wants more. What predicts an answer, for example, is wanted
 * of the last rows alone; all rows have to be there until the last attention has read their keys.
 */
import { equalDimensions, equalShapes, subtractDimensions, type Dimension, type Shape } from './dimension.js';
import { slice } from './operations/shaping.js';
import { sortTopologically, type OperationName, type Tensor } from './tensor.js';

interface Cut {
  readonly axis: number;
  readonly start: Dimension;
  readonly end: Dimension;
}

type Wanted = Cut | 'all';

export function cutEarly(outputs: Readonly<Record<string, Tensor>>): Readonly<Record<string, Tensor>> {
  const order = sortTopologically(Object.values(outputs));
  const wanted = findWanted(order, new Set(Object.values(outputs)));
  const built = new Map<Tensor, Tensor>();
  /** As its reader wants it: what is kept of a tensor is that, or all of it. */
  const read = (tensor: Tensor, cut: Wanted): Tensor =>
    cut === 'all' || wanted.get(tensor) !== 'all' ? built.get(tensor)! : take(built.get(tensor)!, cut);
  for (const tensor of order) {
    const own = wanted.get(tensor)!;
    const cuts = cutsOfInputs(tensor, own);
    if (tensor.operation === 'slice' && own === 'all')
      built.set(tensor, read(tensor.inputs[0]!, tensor.attributes));
    else if (own === 'all' || cuts === undefined) {
      const inputs = tensor.inputs.map((input) => read(input, 'all'));
      const isSame = inputs.every((input, index) => input === tensor.inputs[index]);
      const whole = isSame ? tensor : { ...tensor, inputs };
      built.set(tensor, own === 'all' ? whole : take(whole, own));
    } else {
      const inputs = tensor.inputs.map((input, index) => read(input, cuts[index]!));
      built.set(tensor, { ...tensor, inputs, shape: cutShape(tensor.shape, own) });
    }
  }
  return Object.fromEntries(Object.entries(outputs).map(([name, tensor]) => [name, built.get(tensor)!]));
}

function findWanted(order: readonly Tensor[], outputs: ReadonlySet<Tensor>): ReadonlyMap<Tensor, Wanted> {
  const wanted = new Map<Tensor, Wanted>();
  for (const output of outputs) wanted.set(output, 'all');
  for (const tensor of order.toReversed()) {
    const own = wanted.get(tensor)!;
    const cuts = cutsOfInputs(tensor, own);
    tensor.inputs.forEach((input, index) => {
      const [cut, known] = [cuts?.[index] ?? 'all', wanted.get(input)];
      wanted.set(input, known === undefined || areEqual(known, cut) ? cut : 'all');
    });
  }
  return wanted;
}

/** What a tensor has to read to give what is wanted of it; undefined where it reads everything all the same. */
function cutsOfInputs(tensor: Tensor, own: Wanted): readonly Wanted[] | undefined {
  if (own === 'all') return tensor.operation === 'slice' ? [tensor.attributes] : undefined;
  const rule = rules[tensor.operation];
  return rule?.(tensor, own)?.map((axis) => (axis === undefined ? 'all' : { ...own, axis }));
}

/** Along which axis each input is cut, or undefined where all of it is needed; undefined as a whole: nothing can be cut. */
type Rule = (tensor: Tensor, cut: Cut) => readonly (number | undefined)[] | undefined;

const elementwise: Rule = ({ inputs, shape }, { axis }) =>
  inputs.map((input) => {
    const at = axis - (shape.length - input.shape.length);
    // Where it is repeated along the axis, it is the same for every stretch.
    return at >= 0 && equalDimensions(input.shape[at]!, shape[axis]!) ? at : undefined;
  });

/** Each row by itself: any axis but the last. */
const byRows: Rule = ({ inputs, shape }, { axis }) =>
  axis === shape.length - 1 ? undefined : inputs.map((_, index) => (index === 0 ? axis : undefined));

const rules: Readonly<Partial<Record<OperationName, Rule>>> = {
  ...Object.fromEntries(
    [
      ...['negate', 'exponential', 'logarithm', 'reciprocalSquareRoot', 'sigmoid', 'silu', 'stopGradient'],
      ...['cast', 'add', 'subtract', 'multiply', 'divide', 'maximum', 'minimum', 'select'],
    ].map((name) => [name, elementwise]),
  ),
  ...{ softmax: byRows, logSoftmax: byRows, rmsNorm: byRows },
  contract: (tensor, { axis }) => {
    if (tensor.operation !== 'contract') return undefined;
    const { left, right, output } = tensor.attributes;
    const sides = [left, right].map((names) => names.indexOf(output[axis]!));
    // A part of a matrix of weights would have to be copied out of it at each run.
    if (sides.some((at, index) => at >= 0 && isStored(tensor.inputs[index]!))) return undefined;
    return sides.map((at) => (at < 0 ? undefined : at));
  },
  reshape: ({ inputs: [x], shape }, { axis }) =>
    // The axis and all before it have to be what they were.
    equalShapes(x!.shape.slice(0, axis + 1), shape.slice(0, axis + 1)) ? [axis] : undefined,
  concatenate: (tensor, { axis }) =>
    tensor.operation === 'concatenate' && tensor.attributes.axis !== axis
      ? tensor.inputs.map(() => axis)
      : undefined,
  rotate: (_, { axis }) => (axis === 1 ? [1, 0, 0] : undefined),
  attention: (tensor, { axis }) => {
    if (tensor.operation !== 'attention' || axis !== 1) return undefined;
    const ofMask = tensor.inputs[1]!.shape.length - 2;
    const ofSegments = tensor.attributes.segments.flatMap((kind) =>
      kind === 'diagonal' ? [1, 1] : [undefined, undefined],
    );
    return [1, ofMask, ...ofSegments];
  },
};

/** Weights and constants, however their axes are arranged. */
function isStored({ operation, inputs: [x] }: Tensor): boolean {
  if (operation === 'reshape' || operation === 'transpose') return isStored(x!);
  return operation === 'weight' || operation === 'constant';
}

function areEqual(left: Wanted, right: Wanted): boolean {
  if (left === 'all' || right === 'all') return left === right;
  return (
    left.axis === right.axis &&
    equalDimensions(left.start, right.start) &&
    equalDimensions(left.end, right.end)
  );
}

const take = (tensor: Tensor, { axis, start, end }: Cut): Tensor => slice(tensor, axis, start, end);

const cutShape = (shape: Shape, { axis, start, end }: Cut): Shape =>
  shape.map((dimension, index) => (index === axis ? subtractDimensions(end, start) : dimension));
