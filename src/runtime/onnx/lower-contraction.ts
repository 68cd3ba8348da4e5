/** MatMul, or FusedMatMul if a side is transposed or the product is scaled. */
import { readMatrixProduct } from '../../graph/contraction-plan.js';
import type { TensorOf } from '../../graph/tensor.js';
import type { OnnxBuilder } from './builder.js';

export function lowerContraction(
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
