/** One value in, one value out, with NumPy's broadcasting for two. */
import { isHalf } from '../../core/half-floats.js';
import { equalDimensions, formatDimension, type Dimension, type Shape } from '../dimension.js';
import type { DType, GradientRules, OperationName, Tensor } from '../tensor.js';
import { createTensor, isFloat, refuse, requireDType, constant } from '../tensor.js';
import { reduceTo } from './shaping.js';

type Unary =
  | 'negate'
  | 'exponential'
  | 'logarithm'
  | 'reciprocalSquareRoot'
  | 'sigmoid'
  | 'silu'
  | 'stopGradient';
type Binary = 'add' | 'subtract' | 'multiply' | 'divide' | 'maximum' | 'minimum' | 'greater' | 'equal';

const unary =
  (operation: Unary) =>
  (x: Tensor): Tensor => {
    requireDType(operation, x, 'float32');
    return createTensor(operation, [x], {}, { shape: x.shape, dtype: 'float32' });
  };

export const negate = unary('negate');
export const exponential = unary('exponential');
export const logarithm = unary('logarithm');
export const reciprocalSquareRoot = unary('reciprocalSquareRoot');
export const sigmoid = unary('sigmoid');
export const silu = unary('silu');
/** The same value; gradients end here. */
export const stopGradient = unary('stopGradient');

export function cast(x: Tensor, dtype: DType): Tensor {
  return createTensor('cast', [x], { dtype }, { shape: x.shape, dtype });
}

export function broadcastShapes(operation: OperationName, inputs: readonly Tensor[]): Shape {
  const rank = Math.max(...inputs.map((tensor) => tensor.shape.length));
  return Array.from({ length: rank }, (_, axis) => {
    let result: Dimension = 1;
    for (const { shape } of inputs) {
      const dimension = shape[axis - rank + shape.length];
      if (dimension === undefined || dimension === 1 || equalDimensions(dimension, result)) continue;
      if (result !== 1) {
        const pair = `${formatDimension(result)} and ${formatDimension(dimension)}`;
        refuse(operation, `dimensions ${pair} differ and neither is 1`, inputs);
      }
      result = dimension;
    }
    return result;
  });
}

type Operand = Tensor | number;
const asTensor = (value: Operand): Tensor => (typeof value === 'number' ? constant(value) : value);

const binary =
  (operation: Binary, resultType?: DType) =>
  (left: Operand, right: Operand): Tensor => {
    const inputs = [asTensor(left), asTensor(right)] as const;
    const [a, b] = inputs;
    if (a.dtype !== b.dtype) refuse(operation, 'the two sides have different types', inputs);
    if (a.dtype === 'bool') refuse(operation, 'needs numbers', inputs);
    if (isHalf(a.dtype)) refuse(operation, `needs a cast: ${a.dtype} is for storage`, inputs);
    const dtype = resultType ?? a.dtype;
    return createTensor(operation, inputs, {}, { shape: broadcastShapes(operation, inputs), dtype });
  };

export const add = binary('add');
export const subtract = binary('subtract');
export const multiply = binary('multiply');
export const divide = binary('divide');
export const maximum = binary('maximum');
export const minimum = binary('minimum');
export const greater = binary('greater', 'bool');
export const equal = binary('equal', 'bool');

export function select(condition: Tensor, whenTrue: Operand, whenFalse: Operand): Tensor {
  const inputs = [condition, asTensor(whenTrue), asTensor(whenFalse)] as const;
  requireDType('select', condition, 'bool');
  if (inputs[1].dtype !== inputs[2].dtype) refuse('select', 'the two choices have different types', inputs);
  const shape = broadcastShapes('select', inputs);
  return createTensor('select', inputs, {}, { shape, dtype: inputs[1].dtype });
}

function splitExtremum(node: { readonly inputs: readonly Tensor[] }, gradient: Tensor, leftWins: Tensor) {
  const [a, b] = node.inputs;
  return [
    reduceTo(select(leftWins, gradient, 0), a!.shape),
    reduceTo(select(leftWins, 0, gradient), b!.shape),
  ];
}

export const elementwiseGradients: GradientRules<Unary | Binary | 'cast' | 'select'> = {
  negate: (_, g) => [negate(g)],
  exponential: (node, g) => [multiply(g, exponential(node.inputs[0]!))],
  logarithm: (node, g) => [divide(g, node.inputs[0]!)],
  reciprocalSquareRoot: (node, g) => {
    const root = reciprocalSquareRoot(node.inputs[0]!);
    return [multiply(multiply(g, -0.5), multiply(root, multiply(root, root)))];
  },
  sigmoid: (node, g) => {
    const s = sigmoid(node.inputs[0]!);
    return [multiply(g, multiply(s, subtract(1, s)))];
  },
  silu: (node, g) => {
    const x = node.inputs[0]!;
    const s = sigmoid(x);
    return [multiply(g, multiply(s, add(1, multiply(x, subtract(1, s)))))];
  },
  stopGradient: () => [undefined],
  // As if there were no rounding: its steps have no slope, what it approximates has.
  cast: ({ inputs: [x], attributes: { dtype } }, g) => [isFloat(x!.dtype) && isFloat(dtype) ? g : undefined],

  add: ({ inputs: [a, b] }, g) => [reduceTo(g, a!.shape), reduceTo(g, b!.shape)],
  subtract: ({ inputs: [a, b] }, g) => [reduceTo(g, a!.shape), reduceTo(negate(g), b!.shape)],
  multiply: ({ inputs: [a, b] }, g) => [
    reduceTo(multiply(g, b!), a!.shape),
    reduceTo(multiply(g, a!), b!.shape),
  ],
  divide: ({ inputs: [a, b] }, g) => [
    reduceTo(divide(g, b!), a!.shape),
    reduceTo(negate(divide(multiply(g, a!), multiply(b!, b!))), b!.shape),
  ],
  // At a tie the right side takes the gradient: any convex split is a subgradient.
  maximum: (node, g) => splitExtremum(node, g, greater(node.inputs[0]!, node.inputs[1]!)),
  minimum: (node, g) => splitExtremum(node, g, greater(node.inputs[1]!, node.inputs[0]!)),
  greater: () => [undefined, undefined],
  equal: () => [undefined, undefined],
  select: ({ inputs: [condition, a, b] }, g) => [
    undefined,
    reduceTo(select(condition!, g, 0), a!.shape),
    reduceTo(select(condition!, 0, g), b!.shape),
  ],
};
