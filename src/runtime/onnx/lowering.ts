/** Lowers each graph operation to ONNX nodes, using ONNX Runtime's fused kernels where available. */
import { readMatrixProduct } from '../../graph/contraction-plan.js';
import type { Shape } from '../../graph/dimension.js';
import { largestUniform } from '../../graph/operations/indexing.js';
import { simplify } from '../../graph/simplify.js';
import type { DType, OperationName, Tensor, TensorOf } from '../../graph/tensor.js';
import { sortTopologically } from '../../graph/tensor.js';
import { listInputs } from '../program-values.js';
import type { InputDescription, NamedTensors } from '../program.js';
import type { WeightStore } from '../weights.js';
import { lowerInPlace, readsCache, type UpdatedInput } from './attention-in-place.js';
import { elementTypes, OnnxBuilder } from './builder.js';
import { carrierOf, carryInput, carryOutputs } from './session.js';
import { onnxForms } from './onnx-forms.js';
import { groupByRows, lowerQuantized, multipliesWeight } from './quantized-products.js';
import { findResidualNorms, lowerResidualNorm } from './residual-norms.js';
import { WeightPlacement, type ExternalFile, type PlacedWeight } from './weight-placement.js';

/** MatMul, or FusedMatMul if a side is transposed or the product is scaled. */
function lowerContraction(
  builder: OnnxBuilder,
  { attributes }: TensorOf<'contract'>,
  inputs: readonly string[],
): string {
  const { left, right } = readMatrixProduct(attributes)!;
  const transposed = {
    transA: Number(left.innerFirst),
    transB: Number(!right.innerFirst),
    transBatchA: Number(left.batchInside),
    transBatchB: Number(right.batchInside),
  };
  const isPlain = attributes.scale === 1 && Object.values(transposed).every((flag) => flag === 0);
  if (isPlain) return builder.node('MatMul', inputs);
  return builder.node('FusedMatMul', inputs, {
    domain: 'com.microsoft',
    attributes: { ...transposed, alpha: { float: attributes.scale } },
  });
}

/**
 * A loop over the chosen experts, each with all of its rows: a matrix is copied out of the table (and widened) once per
 * pass, and experts that no row chose are not read.
 */
function lowerExperts(
  builder: OnnxBuilder,
  { attributes: { count, transposed }, inputs, shape, dtype }: TensorOf<'expertProduct'>,
  [rows, chosen]: readonly [string, string],
  table: PlacedWeight,
): string {
  const width = (inputs[1]!.shape[1] as number) / count;
  const indices = castTo(builder, chosen, elementTypes.int64);
  const experts = builder.node('Unique', [indices], { attributes: { sorted: 1 } });
  const found = builder.node('Squeeze', [builder.node('Shape', [experts]), builder.integers([0])]);
  const zeros = builder.node('Expand', [builder.floats([0], []), builder.shape(shape, false)]);
  return builder.loop(found, zeros, { shape, dtype }, (trip, result) => {
    const place = builder.node('Unsqueeze', [trip, builder.integers([0])]);
    const expert = builder.node('Gather', [experts, place]);
    const start = builder.node('Mul', [expert, builder.integers([width])]);
    const end = builder.node('Add', [start, builder.integers([width])]);
    const cut = builder.node('Slice', [table.name, start, end, builder.integers([1])]);
    const matrix = table.dtype === 'float32' ? cut : castTo(builder, cut, elementTypes.float32);
    const isOwn = builder.node('Equal', [indices, expert]);
    const own = builder.node('Transpose', [builder.node('NonZero', [isOwn])]); // [row, 1]
    const product = builder.node('FusedMatMul', [builder.node('GatherND', [rows, own]), matrix], {
      domain: 'com.microsoft',
      attributes: { transB: Number(transposed) },
    });
    return builder.node('ScatterND', [result, own, product]);
  });
}

/** Drawing tokens with ONNX nodes: rows are sorted, and deciding sums are double. */
const toDouble = (builder: OnnxBuilder, value: string): string =>
  builder.node('Cast', [value], { attributes: { to: elementTypes.float64 } });

const asColumn = (builder: OnnxBuilder, value: string): string =>
  builder.node('Unsqueeze', [value, builder.integers([-1])]);

const lastAxis = (builder: OnnxBuilder): string => builder.integers([-1], []);

function lowerKeepLikeliest(
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
function lowerDraw(builder: OnnxBuilder, _: TensorOf<'draw'>, [weights, uniform]: readonly string[]): string {
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

type Lowering<Name extends OperationName> = (
  builder: OnnxBuilder,
  node: TensorOf<Name>,
  inputs: readonly string[],
) => string;

/** Leaves, and operations that simplified graphs no longer have. */
type Elsewhere = 'input' | 'weight' | 'attention' | 'stopGradient' | 'expertProduct';

const direct =
  (operator: string) =>
  (builder: OnnxBuilder, _: unknown, inputs: readonly string[]): string =>
    builder.node(operator, inputs);

const castTo = (builder: OnnxBuilder, value: string, to: number): string =>
  builder.node('Cast', [value], { attributes: { to } });

const lowerings: { readonly [Name in Exclude<OperationName, Elsewhere>]: Lowering<Name> } = {
  constant: (builder, node) =>
    builder.constant(node.dtype, node.attributes.values, node.shape as readonly number[]),

  negate: direct('Neg'),
  exponential: direct('Exp'),
  logarithm: direct('Log'),
  reciprocalSquareRoot: (builder, _, [x]) => builder.node('Reciprocal', [builder.node('Sqrt', [x!])]),
  sigmoid: direct('Sigmoid'),
  silu: (builder, _, [x]) =>
    builder.node('QuickGelu', [x!], { domain: 'com.microsoft', attributes: { alpha: { float: 1 } } }),
  cast: (builder, { attributes }, [x]) => castTo(builder, x!, elementTypes[attributes.dtype]),

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
    const choices = [a!, b!].map((choice) => castTo(builder, choice, elementTypes.int32));
    return castTo(builder, builder.node('Where', [condition!, ...choices]), elementTypes.bool);
  },

  contract: lowerContraction,

  reshape: (builder, node, [x]) => builder.node('Reshape', [x!, builder.shape(node.shape, true)]),
  transpose: (builder, { attributes }, [x]) =>
    builder.node('Transpose', [x!], { attributes: { perm: attributes.order } }),
  broadcast: (builder, node, [x]) => builder.node('Expand', [x!, builder.shape(node.shape, false)]),
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
  // A position_ids of one element is an offset: row i of the angle tables belongs to position i.
  rotate: (builder, _, [x, cosine, sine]) =>
    builder.node('RotaryEmbedding', [x!, builder.integers([0]), cosine!, sine!], { domain: 'com.microsoft' }),

  gatherRows: (builder, _, inputs) => builder.node('Gather', inputs, { attributes: { axis: 0 } }),
  // Not ScatterND: its threads add to one row at the same time and lose some of the updates.
  scatterAddRows: (builder, node, [zeros, indices, values]) => {
    const column = builder.node('Unsqueeze', [indices!, builder.integers([-1])]);
    const places = builder.node('Expand', [column, builder.shape(node.inputs[2]!.shape, false)]);
    return builder.node('ScatterElements', [zeros!, places, values!], {
      attributes: { axis: 0, reduction: 'add' },
    });
  },
  pick: (builder, _, [x, indices]) => {
    const column = builder.node('Unsqueeze', [indices!, builder.integers([-1])]);
    const picked = builder.node('GatherElements', [x!, column], { attributes: { axis: -1 } });
    return builder.node('Squeeze', [picked, builder.integers([-1])]);
  },
  oneHot: (builder, node, [indices]) => {
    const depth = node.shape.at(-1) as number;
    const wide = castTo(builder, indices!, elementTypes.int64);
    const isScalar = node.shape.length === 1;
    const places = isScalar ? builder.node('Reshape', [wide, builder.integers([1])]) : wide;
    const ones = builder.node('OneHot', [places, builder.integers([depth]), builder.floats([0, 1], [2])]);
    return isScalar ? builder.node('Reshape', [ones, builder.integers([depth])]) : ones;
  },
  argmax: (builder, _, [x]) =>
    castTo(
      builder,
      builder.node('ArgMax', [x!], { attributes: { axis: -1, keepdims: 0 } }),
      elementTypes.int32,
    ),
  topValues: (builder, { attributes: { count } }, [x]) => lowerTop(builder, x!, count)[0]!,
  topIndices: (builder, { attributes: { count } }, [x]) =>
    castTo(builder, lowerTop(builder, x!, count)[1]!, elementTypes.int32),

  keepLikeliest: lowerKeepLikeliest,
  draw: lowerDraw,
};

function lowerTop(builder: OnnxBuilder, x: string, count: number): readonly string[] {
  return builder.nodeOutputs('TopK', [x, builder.integers([count])], { outputs: 2 });
}

export interface LoweredModel {
  readonly bytes: Uint8Array;
  readonly inputs: readonly InputDescription[];
  readonly outputs: ReadonlyMap<string, { readonly shape: Shape; readonly dtype: DType }>;
  /** Inputs that a run writes: names of the program's values. */
  readonly updates: readonly UpdatedInput[];
  readonly folder: string | undefined; // what the places of mapped files are relative to
  readonly externalFiles: readonly ExternalFile[];
  readonly nodeCount: number;
  /** Reads 16-bit weights and computes in float32. */
  readonly widensWeights: boolean;
}

export function lowerToOnnx(outputs: NamedTensors, weights: readonly WeightStore[]): LoweredModel {
  const builder = new OnnxBuilder();
  const inputs = listInputs(outputs);
  const names = new Map<Tensor, string>();
  const inputNames = new Map(
    inputs.map(({ name, shape, dtype }) => [name, builder.input(name, shape, carrierOf(dtype))]),
  );
  const graph = simplify(carryOutputs(outputs), [carryInput, ...onnxForms]);
  const tensors = sortTopologically(Object.values(graph));
  const placement = new WeightPlacement(tensors, weights);
  const norms = findResidualNorms(tensors);
  const groups = new Map(groupByRows(tensors).flatMap((group) => group.map((one) => [one, group] as const)));

  const updates: UpdatedInput[] = [];
  let widensWeights = false;
  const widen = (value: string): string => {
    widensWeights = true;
    return builder.freshNode('Cast', [value], { attributes: { to: elementTypes.float32 } });
  };
  /** 16-bit weights are widened at each use, so that their float32 values are not kept. */
  const readWeight = (weight: TensorOf<'weight'>, reader?: Tensor): string => {
    const { name, dtype } = placement.place(builder, weight, reader);
    return dtype === weight.dtype ? name : widen(name);
  };
  for (const tensor of tensors) {
    if (tensor.operation === 'input') names.set(tensor, inputNames.get(tensor.attributes.name)!);
    if (tensor.operation === 'input' || tensor.operation === 'weight') continue;
    if (names.has(tensor)) continue;
    const lowering = lowerings[tensor.operation as keyof typeof lowerings] as Lowering<OperationName>;
    const [table] = tensor.inputs;
    // Widen only the gathered rows.
    if (tensor.operation === 'gatherRows' && table?.operation === 'weight') {
      const { name, dtype } = placement.place(builder, table, tensor);
      const rows = lowering(builder, tensor, [name, names.get(tensor.inputs[1]!)!]);
      names.set(tensor, dtype === tensor.dtype ? rows : widen(rows));
      continue;
    }
    const [rows, matrix] = tensor.inputs;
    if (tensor.operation === 'expertProduct') {
      const placed =
        matrix!.operation === 'weight'
          ? placement.place(builder, matrix, tensor)
          : { name: names.get(matrix!)!, dtype: matrix!.dtype };
      const [ofRows, chosen] = [names.get(rows!)!, names.get(tensor.inputs[2]!)!];
      names.set(tensor, lowerExperts(builder, tensor, [ofRows, chosen], placed));
      continue;
    }
    if (multipliesWeight(tensor)) {
      const name = names.get(tensor.inputs[0])!;
      const products =
        lowerQuantized(builder, placement, groups.get(tensor)!, name) ??
        lowerQuantized(builder, placement, [tensor], name);
      for (const [product, result] of products ?? []) names.set(product, result);
      if (products !== undefined) continue;
    }
    const inputs = tensor.inputs.map((input) =>
      input.operation === 'weight' ? readWeight(input, tensor) : names.get(input)!,
    );
    if (readsCache(tensor)) {
      const lowered = lowerInPlace(builder, tensor, inputs);
      updates.push(...lowered.updates);
      names.set(tensor, lowered.result);
      continue;
    }
    const norm = norms.get(tensor);
    if (norm !== undefined) {
      const scale = readWeight(norm.inputs[1] as TensorOf<'weight'>, norm);
      const { sum, normed } = lowerResidualNorm(builder, norm, [inputs[0]!, inputs[1]!, scale]);
      names.set(tensor, sum).set(norm, normed);
      continue;
    }
    names.set(tensor, lowering(builder, tensor, inputs));
  }
  for (const [name, tensor] of Object.entries(graph)) {
    const value = tensor.operation === 'weight' ? readWeight(tensor) : names.get(tensor)!;
    builder.output(name, value, tensor.shape, tensor.dtype);
  }
  const bytes = builder.finish();
  return {
    bytes,
    inputs,
    outputs: new Map(Object.entries(outputs).map(([name, { shape, dtype }]) => [name, { shape, dtype }])),
    updates,
    folder: placement.folder,
    externalFiles: placement.externalFiles,
    nodeCount: builder.nodeCount,
    widensWeights,
  };
}
