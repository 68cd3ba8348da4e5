/** Each graph operation as ONNX nodes, with ONNX Runtime's fused kernels where the CPU provider has them. */
import { isAbsolute } from 'node:path';
import type { Shape } from '../../graph/dimension.js';
import { equalShapes } from '../../graph/dimension.js';
import type { OperationName, Tensor, TensorOf } from '../../graph/tensor.js';
import { sortTopologically } from '../../graph/tensor.js';
import type { InputDescription, NamedTensors } from '../program.js';
import { findWeight, listInputs } from '../program.js';
import type { WeightStore } from '../weights.js';
import { OnnxBuilder } from './builder.js';
import { lowerContraction } from './lower-contraction.js';

type Lowering<Name extends OperationName> = (
  builder: OnnxBuilder,
  node: TensorOf<Name>,
  inputs: readonly string[],
) => string;

type Leaf = 'input' | 'weight';

const direct =
  (operator: string) =>
  (builder: OnnxBuilder, _: unknown, inputs: readonly string[]): string =>
    builder.node(operator, inputs);

const castTo = (builder: OnnxBuilder, value: string, to: number): string =>
  builder.node('Cast', [value], { attributes: { to } });

const onnxTypes = { float32: 1, int32: 6, int64: 7, bool: 9 } as const;

const lowerings: { readonly [Name in Exclude<OperationName, Leaf>]: Lowering<Name> } = {
  constant: (builder, node) =>
    builder.constant(node.dtype, node.attributes.values, node.shape as readonly number[]),

  negate: direct('Neg'),
  exponential: direct('Exp'),
  logarithm: direct('Log'),
  reciprocalSquareRoot: (builder, _, [x]) => builder.node('Reciprocal', [builder.node('Sqrt', [x!])]),
  sigmoid: direct('Sigmoid'),
  silu: (builder, _, [x]) =>
    builder.node('QuickGelu', [x!], { domain: 'com.microsoft', attributes: { alpha: { float: 1 } } }),
  stopGradient: (_builder, _, [x]) => x!,
  cast: (builder, { attributes }, [x]) => castTo(builder, x!, onnxTypes[attributes.dtype]),

  add: direct('Add'),
  subtract: direct('Sub'),
  multiply: direct('Mul'),
  divide: direct('Div'),
  maximum: direct('Max'),
  minimum: direct('Min'),
  greater: direct('Greater'),
  equal: direct('Equal'),
  select: direct('Where'),

  contract: lowerContraction,

  reshape: (builder, node, [x]) => builder.node('Reshape', [x!, builder.shape(node.shape, true)]),
  transpose: (builder, { attributes }, [x]) =>
    builder.node('Transpose', [x!], { attributes: { perm: attributes.order } }),
  broadcast: (builder, node, [x]) =>
    equalShapes(node.shape, node.inputs[0]!.shape)
      ? x!
      : builder.node('Expand', [x!, builder.shape(node.shape, false)]),
  slice: (builder, { attributes: { axis, start, end } }, [x]) =>
    builder.node('Slice', [x!, builder.dimension(start), builder.dimension(end), builder.integers([axis])]),
  pad: (builder, node, [x]) => {
    const { axis, before, after } = node.attributes;
    const at = (amount: Shape[number]) => node.shape.map((_, index) => (index === axis ? amount : 0));
    const pads = builder.shape([...at(before), ...at(after)], false);
    return builder.node('Pad', [x!, pads]);
  },
  concatenate: (builder, { attributes: { axis } }, inputs) =>
    builder.node('Concat', inputs, { attributes: { axis } }),

  sum: (builder, { attributes: { axes } }, [x]) => builder.node('ReduceSum', [x!, builder.integers(axes)]),
  reduceMaximum: (builder, _, [x]) => builder.node('ReduceMax', [x!, builder.integers([-1])]),
  softmax: (builder, _, [x]) => builder.node('Softmax', [x!], { attributes: { axis: -1 } }),
  logSoftmax: (builder, _, [x]) => builder.node('LogSoftmax', [x!], { attributes: { axis: -1 } }),
  rmsNorm: (builder, { attributes: { epsilon } }, inputs) =>
    builder.node('SimplifiedLayerNormalization', inputs, {
      attributes: { axis: -1, epsilon: { float: epsilon } },
    }),
  rotate: (builder, node, [x, cosine, sine]) => {
    const [batch, position, heads, width] = node.shape;
    const flat = builder.shape([batch!, position!, (heads as number) * (width as number)], true);
    const flattened = builder.node('Reshape', [x!, flat]);
    // A position_ids of one element is an offset: row i of the angle tables belongs to position i.
    const inputs = [flattened, builder.integers([0]), cosine!, sine!];
    const turned = builder.node('RotaryEmbedding', inputs, { domain: 'com.microsoft' });
    return builder.node('Reshape', [turned, builder.shape(node.shape, true)]);
  },

  gatherRows: (builder, _, inputs) => builder.node('Gather', inputs, { attributes: { axis: 0 } }),
  scatterAddRows: (builder, node, [, indices, values]) => {
    const zeros = builder.node('Expand', [builder.floats([0], []), builder.shape(node.shape, false)]);
    const wide = castTo(builder, indices!, onnxTypes.int64);
    const rows = builder.node('Unsqueeze', [wide, builder.integers([-1])]);
    return builder.node('ScatterND', [zeros, rows, values!], { attributes: { reduction: 'add' } });
  },
  pick: (builder, _, [x, indices]) => {
    const column = builder.node('Unsqueeze', [indices!, builder.integers([-1])]);
    const picked = builder.node('GatherElements', [x!, column], { attributes: { axis: -1 } });
    return builder.node('Squeeze', [picked, builder.integers([-1])]);
  },
  oneHot: (builder, node, [indices]) => {
    const depth = builder.integers([node.shape.at(-1) as number]);
    return builder.node('OneHot', [
      castTo(builder, indices!, onnxTypes.int64),
      depth,
      builder.floats([0, 1], [2]),
    ]);
  },
  argmax: (builder, _, [x]) =>
    castTo(builder, builder.node('ArgMax', [x!], { attributes: { axis: -1, keepdims: 0 } }), onnxTypes.int32),
  topValues: (builder, { attributes: { count } }, [x]) => lowerTop(builder, x!, count)[0]!,
  topIndices: (builder, { attributes: { count } }, [x]) =>
    castTo(builder, lowerTop(builder, x!, count)[1]!, onnxTypes.int32),
};

function lowerTop(builder: OnnxBuilder, x: string, count: number): readonly string[] {
  return builder.nodeOutputs('TopK', [x, builder.integers([count])], { outputs: 2 });
}

export interface LoweredModel {
  readonly bytes: Uint8Array;
  readonly inputs: readonly InputDescription[];
  readonly externalFiles: readonly ExternalFile[];
  readonly nodeCount: number;
}

/** Weights that a model refers to by location: a file to map, or bytes to copy. */
export interface ExternalFile {
  readonly location: string;
  readonly source: string | Uint8Array;
}

export function lowerToOnnx(outputs: NamedTensors, weights: readonly WeightStore[]): LoweredModel {
  const builder = new OnnxBuilder();
  const inputs = listInputs(outputs);
  const names = new Map<Tensor, string>();
  const externalFiles = new Map<string, ExternalFile>();
  const inputNames = new Map(
    inputs.map(({ name, shape, dtype }) => [name, builder.input(name, shape, dtype)]),
  );
  const weightNames = new Map<string, string>();

  for (const tensor of sortTopologically(Object.values(outputs))) {
    if (tensor.operation === 'input') {
      names.set(tensor, inputNames.get(tensor.attributes.name)!);
    } else if (tensor.operation === 'weight') {
      const { name } = tensor.attributes;
      const known =
        weightNames.get(name) ?? placeWeight(builder, tensor, findWeight(weights, tensor), externalFiles);
      weightNames.set(name, known);
      names.set(tensor, known);
    } else {
      const lowering = lowerings[tensor.operation] as Lowering<OperationName>;
      const lowered = lowering(
        builder,
        tensor,
        tensor.inputs.map((input) => names.get(input)!),
      );
      names.set(tensor, lowered);
    }
  }
  for (const [name, tensor] of Object.entries(outputs)) {
    builder.output(name, names.get(tensor)!, tensor.shape, tensor.dtype);
  }
  const bytes = builder.finish();
  return { bytes, inputs, externalFiles: [...externalFiles.values()], nodeCount: builder.nodeCount };
}

function placeWeight(
  builder: OnnxBuilder,
  tensor: TensorOf<'weight'>,
  store: WeightStore,
  files: Map<string, ExternalFile>,
): string {
  const { name } = tensor.attributes;
  const shape = tensor.shape as readonly number[];
  if (store.kind === 'file') {
    if (!isAbsolute(store.path)) throw new Error(`Weight file path "${store.path}" is not absolute.`);
    const location = `weights${[...files.keys()].indexOf(store.path) < 0 ? files.size : [...files.keys()].indexOf(store.path)}`;
    files.set(store.path, { location, source: store.path });
    return builder.weight(name, shape, { location, ...store.tensors.get(name)! });
  }
  const { data } = store.tensors.get(name)!;
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const location = `memory${files.size}`;
  files.set(location, { location, source: bytes });
  return builder.weight(name, shape, { location, offsetBytes: 0, sizeBytes: bytes.length });
}
