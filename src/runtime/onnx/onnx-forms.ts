/** Rewrites operations to the forms of ONNX Runtime's kernels; needed reshapes then fold. */
import { isHalf } from '../../core/half-floats.js';
import { planContraction } from '../../graph/contraction-plan.js';
import { countElements, multiplyDimensions } from '../../graph/dimension.js';
import { decomposeAttention, rotate } from '../../graph/operations/attention.js';
import { cast, select } from '../../graph/operations/elementwise.js';
import { scatterAddRows } from '../../graph/operations/indexing.js';
import { broadcast, pad, reshape } from '../../graph/operations/shaping.js';
import type { RewriteRule } from '../../graph/simplify.js';

const flattenRotation: RewriteRule = (tensor) => {
  if (tensor.operation !== 'rotate' || tensor.shape.length === 3) return undefined;
  const [x, cosine, sine] = tensor.inputs;
  const [batch, position, heads, width] = tensor.shape;
  const flat = reshape(x!, [batch!, position!, multiplyDimensions(heads!, width!)]);
  return reshape(rotate(flat, cosine!, sine!), tensor.shape);
};

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
  decomposeAttention,
  planContraction,
  flattenRotation,
  flattenScatter,
  widenMoves,
];
