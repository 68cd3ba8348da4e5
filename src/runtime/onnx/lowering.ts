/** Each graph operation as ONNX nodes, with ONNX Runtime's fused kernels where the CPU provider has them. */
import { basename, dirname, isAbsolute } from 'node:path';
import { MistletoeError } from '../../core/errors.js';
import type { Shape } from '../../graph/dimension.js';
import { equalShapes, multiplyDimensions } from '../../graph/dimension.js';
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
  select: (builder, { dtype }, [condition, a, b]) => {
    if (dtype !== 'bool') return builder.node('Where', [condition!, a!, b!]);
    // ONNX Runtime has no Where for booleans.
    const choices = [a!, b!].map((choice) => castTo(builder, choice, onnxTypes.int32));
    return castTo(builder, builder.node('Where', [condition!, ...choices]), onnxTypes.bool);
  },

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
    const flat = builder.shape([batch!, position!, multiplyDimensions(heads!, width!)], true);
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
    const depth = node.shape.at(-1) as number;
    const wide = castTo(builder, indices!, onnxTypes.int64);
    const isScalar = node.shape.length === 1;
    const places = isScalar ? builder.node('Reshape', [wide, builder.integers([1])]) : wide;
    const ones = builder.node('OneHot', [places, builder.integers([depth]), builder.floats([0, 1], [2])]);
    return isScalar ? builder.node('Reshape', [ones, builder.integers([depth])]) : ones;
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
  readonly outputs: readonly string[];
  readonly folder: string | undefined; // where the model must lie while it is loaded
  readonly externalFiles: readonly ExternalFile[];
  readonly nodeCount: number;
}

/**
 * Weights that a model refers to by location. A file in the model's folder is mapped; anything else has to be handed
 * over as bytes under its location.
 */
export interface ExternalFile {
  readonly location: string;
  readonly source: string | Uint8Array;
  readonly mapped: boolean;
}

export function lowerToOnnx(outputs: NamedTensors, weights: readonly WeightStore[]): LoweredModel {
  const builder = new OnnxBuilder();
  const inputs = listInputs(outputs);
  const names = new Map<Tensor, string>();
  const files = new WeightFiles();
  const inputNames = new Map(
    inputs.map(({ name, shape, dtype }) => [name, builder.input(name, shape, dtype)]),
  );
  const weightNames = new Map<string, string>();

  for (const tensor of sortTopologically(Object.values(outputs))) {
    if (tensor.operation === 'input') {
      names.set(tensor, inputNames.get(tensor.attributes.name)!);
    } else if (tensor.operation === 'weight') {
      const { name } = tensor.attributes;
      const known = weightNames.get(name) ?? placeWeight(builder, tensor, findWeight(weights, tensor), files);
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
  return {
    bytes,
    inputs,
    outputs: Object.keys(outputs),
    folder: files.folder,
    externalFiles: [...files.byPath.values()],
    nodeCount: builder.nodeCount,
  };
}

/** The files a model reads. The first one on disk decides the folder that the others can be mapped from. */
class WeightFiles {
  readonly byPath = new Map<string, ExternalFile>();
  folder: string | undefined;

  addFile(path: string): ExternalFile {
    const known = this.byPath.get(path);
    if (known !== undefined) return known;
    if (!isAbsolute(path)) {
      throw new MistletoeError('checkpoint', `The weight file "${path}" was expected as an absolute path.`);
    }
    this.folder ??= dirname(path);
    const mapped = dirname(path) === this.folder;
    const file = { location: mapped ? basename(path) : this.nextCopy(), source: path, mapped };
    this.byPath.set(path, file);
    return file;
  }

  addBytes(source: Uint8Array): ExternalFile {
    const file = { location: this.nextCopy(), source, mapped: false };
    this.byPath.set(file.location, file);
    return file;
  }

  private nextCopy(): string {
    return `copy:${this.byPath.size}`;
  }
}

function placeWeight(
  builder: OnnxBuilder,
  tensor: TensorOf<'weight'>,
  store: WeightStore,
  files: WeightFiles,
): string {
  const { name } = tensor.attributes;
  const shape = tensor.shape as readonly number[];
  if (store.kind === 'file') {
    const { location } = files.addFile(store.path);
    const { offsetBytes, sizeBytes } = store.tensors.get(name)!;
    return builder.weight(name, shape, { location, offsetBytes, sizeBytes });
  }
  const { data } = store.tensors.get(name)!;
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const { location } = files.addBytes(bytes);
  return builder.weight(name, shape, { location, offsetBytes: 0, sizeBytes: bytes.length });
}
