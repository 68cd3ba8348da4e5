/**
 * A tensor is a node of a symbolic graph: an operation, its attributes and its inputs, with shape and type already
 * inferred. Building one executes nothing. Nodes are immutable and compared by identity.
 */
import { MistletoeError } from '../core/errors.js';
import { isHalf, type HalfType } from '../core/half-floats.js';
import { formatShape, type Dimension, type Shape } from './dimension.js';

/** bfloat16 and float16 are for storage: they are moved, looked up and cast, and computed with as float32. */
export type DType = 'float32' | HalfType | 'int32' | 'bool';

/** Types whose values have a gradient, which is float32 for all of them. */
export const isFloat = (dtype: DType): boolean => dtype === 'float32' || isHalf(dtype);

type None = Readonly<Record<string, never>>;

/** Every operation with its attributes. A runtime that lowers each of these runs every model and every gradient. */
export interface Attributes {
  input: { readonly name: string };
  weight: { readonly name: string };
  constant: { readonly values: readonly number[] };

  negate: None;
  exponential: None;
  logarithm: None;
  reciprocalSquareRoot: None;
  sigmoid: None;
  silu: None;
  stopGradient: None;
  cast: { readonly dtype: DType };

  add: None;
  subtract: None;
  multiply: None;
  divide: None;
  maximum: None;
  minimum: None;
  greater: None;
  equal: None;
  select: None;

  contract: Contraction;
  expertProduct: { readonly count: number; readonly transposed: boolean };
  attention: Attention;

  reshape: None;
  transpose: { readonly order: readonly number[] };
  broadcast: None;
  slice: { readonly axis: number; readonly start: Dimension; readonly end: Dimension };
  pad: { readonly axis: number; readonly before: Dimension; readonly after: Dimension };
  concatenate: { readonly axis: number };

  sum: { readonly axes: readonly number[] };
  reduceMaximum: None;
  softmax: None;
  logSoftmax: None;
  rmsNorm: { readonly epsilon: number };
  rotate: None;

  gatherRows: None;
  scatterAddRows: None;
  pick: None;
  oneHot: None;
  argmax: None;
  topValues: { readonly count: number };
  topIndices: { readonly count: number };

  keepLikeliest: None;
  draw: None;
}

/** Sum of products over named axes: left "b t i", right "i o", output "b t o" is a matrix product. */
export interface Contraction {
  readonly left: readonly string[];
  readonly right: readonly string[];
  readonly output: readonly string[];
  readonly scale: number;
}

/** What each segment of keys and values is to the rows that look at it; operations/attention.ts has the meaning. */
export type SegmentKind = 'cache' | 'common' | 'shared' | 'own' | 'diagonal';

export interface Attention {
  readonly segments: readonly SegmentKind[];
  readonly heads: number; // of one lane
  readonly keyValueHeads: number; // of one lane; divides the heads
  readonly scale: number;
  /** Of keys and values that are kept; new ones are rounded to it, so that it does not matter when they were made. */
  readonly cacheType?: HalfType | undefined;
}

export type OperationName = keyof Attributes;

export interface TensorOf<Name extends OperationName> {
  readonly operation: Name;
  readonly attributes: Attributes[Name];
  readonly inputs: readonly Tensor[];
  readonly shape: Shape;
  readonly dtype: DType;
}

export type Tensor = { [Name in OperationName]: TensorOf<Name> }[OperationName];

export function createTensor<Name extends OperationName>(
  operation: Name,
  inputs: readonly Tensor[],
  attributes: Attributes[Name],
  result: { readonly shape: Shape; readonly dtype: DType },
): Tensor {
  // The union is built field by field from one Name, which the compiler cannot see through.
  return { operation, inputs, attributes, shape: result.shape, dtype: result.dtype } as unknown as Tensor;
}

/** Refuses a graph at the moment it is built, naming the operation and what it was given. */
export function refuse(operation: string, problem: string, inputs: readonly Tensor[]): never {
  const given = inputs.map(({ dtype, shape }) => `${dtype} ${formatShape(shape)}`).join(' and ');
  const seen = inputs.length === 0 ? '' : ` (given ${given})`;
  throw new MistletoeError('shape', `${operation}: ${problem}${seen}`);
}

export function requireDType(operation: string, tensor: Tensor, dtype: DType): void {
  if (tensor.dtype !== dtype) refuse(operation, `needs ${dtype} values, found ${tensor.dtype}`, [tensor]);
}

export function requireLastAxis(operation: string, tensor: Tensor): void {
  if (tensor.shape.length === 0) refuse(operation, 'needs at least one axis', [tensor]);
}

/** Axis counted from the end when negative, checked against the rank. */
export function resolveAxis(operation: string, tensor: Tensor, axis: number): number {
  const resolved = axis < 0 ? axis + tensor.shape.length : axis;
  if (!Number.isInteger(resolved) || resolved < 0 || resolved >= tensor.shape.length) {
    refuse(operation, `axis ${axis} does not exist in rank ${tensor.shape.length}`, [tensor]);
  }
  return resolved;
}

/** Inputs before users, every node once; known nodes, and what only they need, are left out. */
export function sortTopologically(
  outputs: readonly Tensor[],
  isKnown: (tensor: Tensor) => boolean = () => false,
): readonly Tensor[] {
  const ordered: Tensor[] = [];
  const state = new Set<Tensor>();
  // An explicit stack: backward graphs are deeper than the call stack likes.
  const stack: { tensor: Tensor; next: number }[] = [];
  for (const output of outputs) {
    if (!state.has(output) && !isKnown(output)) {
      state.add(output);
      stack.push({ tensor: output, next: 0 });
    }
    while (stack.length > 0) {
      const frame = stack[stack.length - 1]!;
      const input = frame.tensor.inputs[frame.next];
      if (input === undefined) {
        ordered.push(frame.tensor);
        stack.pop();
        continue;
      }
      frame.next += 1;
      if (!state.has(input) && !isKnown(input)) {
        state.add(input);
        stack.push({ tensor: input, next: 0 });
      }
    }
  }
  return ordered;
}

/** What an operation's file contributes to gradient(): for each input, how the loss changes with it. */
export type GradientRule<Name extends OperationName> = (
  node: TensorOf<Name>,
  outputGradient: Tensor,
) => readonly (Tensor | undefined)[];

export type GradientRules<Names extends OperationName> = { readonly [Name in Names]: GradientRule<Name> };

/** A value given at every run. */
export function input(name: string, shape: Shape, dtype: DType = 'float32'): Tensor {
  return createTensor('input', [], { name }, { shape, dtype });
}

/** A parameter, found by name in the weights that a program is compiled with. */
export function weight(name: string, shape: readonly number[], dtype: DType = 'float32'): Tensor {
  return createTensor('weight', [], { name }, { shape, dtype });
}

export function constant(
  values: number | readonly number[],
  shape: readonly number[] = [],
  dtype: DType = 'float32',
): Tensor {
  const list = typeof values === 'number' ? [values] : values;
  const expected = shape.reduce((product, size) => product * size, 1);
  if (list.length !== expected) {
    refuse('constant', `${list.length} values do not fill the shape ${formatShape(shape)}`, []);
  }
  return createTensor('constant', [], { values: list }, { shape, dtype });
}
