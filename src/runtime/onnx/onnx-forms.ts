/** Rewrites operations to the forms of ONNX Runtime's kernels; needed reshapes then fold. */
import { isHalf } from '../../core/half-floats.js';
import { planContraction } from '../../graph/contraction-plan.js';
import { countElements, equalShapes, multiplyDimensions } from '../../graph/dimension.js';
import { attention, decomposeAttention, listSegments, rotate } from '../../graph/operations/attention.js';
import { cast, multiply, select } from '../../graph/operations/elementwise.js';
import { scatterAddRows } from '../../graph/operations/indexing.js';
import { broadcast, concatenate, pad, reshape } from '../../graph/operations/shaping.js';
import type { RewriteRule } from '../../graph/simplify.js';
import { constant, createTensor, type Tensor } from '../../graph/tensor.js';
import { readsCache } from './attention-in-place.js';

const flattenRotation: RewriteRule = (tensor) => {
  if (tensor.operation !== 'rotate' || tensor.shape.length === 3) return undefined;
  const [x, cosine, sine] = tensor.inputs;
  const [batch, position, heads, width] = tensor.shape;
  const flat = reshape(x!, [batch!, position!, multiplyDimensions(heads!, width!)]);
  return reshape(rotate(flat, cosine!, sine!), tensor.shape);
};

/**
 * Scales the angles of rotated queries instead of their scores: ONNX Runtime has a fast kernel for one row, which does
 * not scale.
 */
const scaleQueries: RewriteRule = (tensor) => {
  if (tensor.operation !== 'attention' || tensor.attributes.scale === 1) return undefined;
  const { inputs, attributes } = tensor;
  const [queries, mask] = inputs as [Tensor, Tensor];
  let root = queries;
  while (root.operation === 'reshape') root = root.inputs[0]!;
  if (root.operation !== 'rotate') return undefined;
  const [x, ...angles] = root.inputs as [Tensor, Tensor, Tensor];
  const [cosine, sine] = angles.map((angle) => multiply(angle, constant(attributes.scale)));
  const scaled = reshape(rotate(x, cosine!, sine!), queries.shape);
  return attention(scaled, listSegments(tensor), mask, { ...attributes, scale: 1 });
};

/** A cache is read and written in place (attention-in-place.ts); the kernel wants heads next to each other. */
const flattenCached: RewriteRule = (tensor) => {
  if (!readsCache(tensor) || tensor.shape.length === 3) return undefined;
  const [queries, mask, keys, values, ...own] = tensor.inputs as [Tensor, Tensor, Tensor, Tensor, Tensor];
  const flatten = (x: Tensor): Tensor => {
    const [batch, position, heads, width] = x.shape;
    return reshape(x, [batch!, position!, multiplyDimensions(heads!, width!)]);
  };
  const flat = flatten(queries);
  const inputs = [flat, mask, keys, values, ...own.map(flatten)];
  const attended = createTensor('attention', inputs, tensor.attributes, {
    shape: flat.shape,
    dtype: 'float32',
  });
  return reshape(attended, tensor.shape);
};

const decomposeOthers: RewriteRule = (tensor) =>
  readsCache(tensor) ? undefined : decomposeAttention(tensor);

/** ScatterElements works per element: rows and indices of one axis. */
const flattenScatter: RewriteRule = (tensor) => {
  if (tensor.operation !== 'scatterAddRows') return undefined;
  const [table, indices, values] = tensor.inputs;
  if (table!.shape.length === 2 && indices!.shape.length === 1) return undefined;
  const [rows, ...rest] = tensor.shape;
  const [count, width] = [countElements(indices!.shape), countElements(rest)];
  const flat = scatterAddRows(
    reshape(table!, [rows!, width]),
    reshape(indices!, [count]),
    reshape(values!, [count, width]),
  );
  return reshape(flat, tensor.shape);
};

/** Parts are joined along the first axis before they are reshaped: one node instead of one for each part. */
const joinBeforeReshape: RewriteRule = (tensor) => {
  if (tensor.operation !== 'concatenate' || tensor.attributes.axis !== 0) return undefined;
  const sources = tensor.inputs.map((part) => (part.operation === 'reshape' ? part.inputs[0]! : part));
  const [first] = sources;
  const fits = tensor.inputs.every(
    ({ operation, shape }, index) =>
      operation === 'reshape' &&
      equalShapes(sources[index]!.shape, first!.shape) &&
      equalShapes(sources[index]!.shape.slice(0, 1), shape.slice(0, 1)),
  );
  return fits ? reshape(concatenate(sources, 0), tensor.shape) : undefined;
};

/** Kernels without half types move float32 instead. */
const widenMoves: RewriteRule = (tensor) => {
  const { operation, inputs, attributes, dtype, shape } = tensor;
  if (!isHalf(dtype)) return undefined;
  const [x, ...others] = inputs.map((value) => (isHalf(value.dtype) ? cast(value, 'float32') : value));
  switch (operation) {
    case 'broadcast':
      return cast(broadcast(x!, shape), dtype);
    case 'pad':
      return cast(pad(x!, attributes.axis, attributes.before, attributes.after), dtype);
    case 'select':
      return cast(select(x!, others[0]!, others[1]!), dtype);
    default:
      return undefined;
  }
};

export const onnxForms: readonly RewriteRule[] = [
  scaleQueries,
  flattenCached,
  decomposeOthers,
  planContraction,
  flattenRotation,
  flattenScatter,
  joinBeforeReshape,
  widenMoves,
];
