/** A sum of the residual stream and the norm that reads it are one kernel of ONNX Runtime. */
import { equalShapes } from '../../graph/dimension.js';
import type { Tensor, TensorOf } from '../../graph/tensor.js';
import type { OnnxBuilder } from './builder.js';

/** [sum] The norm that is computed with it. */
export type ResidualNorms = ReadonlyMap<Tensor, TensorOf<'rmsNorm'>>;

export function findResidualNorms(tensors: readonly Tensor[]): ResidualNorms {
  const found = new Map<Tensor, TensorOf<'rmsNorm'>>();
  for (const tensor of tensors) {
    if (tensor.operation !== 'rmsNorm') continue;
    const [sum, scale] = tensor.inputs as [Tensor, Tensor];
    if (found.has(sum) || sum.operation !== 'add' || scale.operation !== 'weight') continue;
    const isPlain = sum.inputs.every(
      ({ shape, dtype }) => dtype === 'float32' && equalShapes(shape, sum.shape),
    );
    const hasRows = sum.shape.length === 2 || sum.shape.length === 3;
    if (isPlain && hasRows) found.set(sum, tensor);
  }
  return found;
}

export function lowerResidualNorm(
  builder: OnnxBuilder,
  { attributes: { epsilon } }: TensorOf<'rmsNorm'>,
  inputs: readonly [left: string, right: string, scale: string],
): { readonly sum: string; readonly normed: string } {
  const [normed, , , sum] = builder.nodeOutputs('SkipSimplifiedLayerNormalization', inputs, {
    domain: 'com.microsoft',
    attributes: { epsilon: { float: epsilon } },
    outputs: 4,
    unused: [1, 2],
  });
  return { sum: sum!, normed: normed! };
}
