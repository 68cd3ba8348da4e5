/** Drawing tokens with ONNX nodes: rows are sorted, and deciding sums are double. */
import { largestUniform } from '../../graph/operations/drawing.js';
import type { TensorOf } from '../../graph/tensor.js';
import type { OnnxBuilder } from './builder.js';
import { elementTypes } from './builder.js';

const toDouble = (builder: OnnxBuilder, value: string): string =>
  builder.node('Cast', [value], { attributes: { to: elementTypes.float64 } });

const asColumn = (builder: OnnxBuilder, value: string): string =>
  builder.node('Unsqueeze', [value, builder.integers([-1])]);

const lastAxis = (builder: OnnxBuilder): string => builder.integers([-1], []);

export function lowerKeepLikeliest(
  builder: OnnxBuilder,
  { shape }: TensorOf<'keepLikeliest'>,
  [x, count, mass]: readonly string[],
): string {
  const width = shape.at(-1) as number;
  const ranks = Array.from({ length: width }, (_, rank) => rank);
  const places = builder.constant('int32', ranks, [width]);
  const nothing = builder.floats([-Infinity], []);
  const [sorted, order] = builder.nodeOutputs('TopK', [x!, builder.integers([width])], { outputs: 2 });
  const least = builder.constant('int32', [1], []);
  const wanted = asColumn(builder, builder.node('Max', [count!, least]));
  const counted = builder.node('Where', [builder.node('Less', [places, wanted]), sorted!, nothing]);
  const shares = toDouble(builder, builder.node('Softmax', [counted], { attributes: { axis: -1 } }));
  const before = builder.node('CumSum', [shares, lastAxis(builder)], { attributes: { exclusive: 1 } });
  const column = asColumn(builder, mass!);
  const isWhole = builder.node('GreaterOrEqual', [column, builder.floats([1], [])]);
  const isReached = builder.node('Less', [before, toDouble(builder, column)]);
  const isFirst = builder.node('Equal', [places, builder.constant('int32', [0], [])]);
  const isKept = builder.node('Or', [builder.node('Or', [isReached, isWhole]), isFirst]);
  const kept = builder.node('Where', [isKept, counted, nothing]);
  return builder.node('ScatterElements', [x!, order!, kept], { attributes: { axis: -1 } });
}

/** Argmax finds the first place where the running sum is above. */
export function lowerDraw(
  builder: OnnxBuilder,
  _: TensorOf<'draw'>,
  [weights, uniform]: readonly string[],
): string {
  const running = builder.node('CumSum', [toDouble(builder, weights!), lastAxis(builder)]);
  const total = builder.node('ReduceMax', [running, builder.integers([-1])]);
  const number = builder.node('Min', [uniform!, builder.floats([largestUniform], [])]);
  const wanted = builder.node('Mul', [toDouble(builder, asColumn(builder, number)), total]);
  const isAbove = builder.node('Cast', [builder.node('Greater', [running, wanted])], {
    attributes: { to: elementTypes.int32 },
  });
  const place = builder.node('ArgMax', [isAbove], { attributes: { axis: -1, keepdims: 0 } });
  return builder.node('Cast', [place], { attributes: { to: elementTypes.int32 } });
}
