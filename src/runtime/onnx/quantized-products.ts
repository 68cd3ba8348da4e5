/**
 * Rows times matrices of 8 or 4 bits. Products of the same rows, such as queries, keys, and values, are one kernel if
 * their matrices are adjacent in the file: it quantizes the rows once, and has enough work for several threads.
 */
import type { Tensor, TensorOf } from '../../graph/tensor.js';
import { quantizedBlock } from '../weights.js';
import type { OnnxBuilder } from './builder.js';
import type { PlacedMatrix, WeightPlacement } from './weight-placement.js';

/** A product of rows with a weight, as this file lowers it. */
export type WeightedRows = TensorOf<'contract'> & { readonly inputs: readonly [Tensor, TensorOf<'weight'>] };

export function multipliesWeight(tensor: Tensor): tensor is WeightedRows {
  return tensor.operation === 'contract' && tensor.inputs[1]!.operation === 'weight';
}

/** Products of the same rows by the same scale, in order; each in one group. */
export function groupByRows(tensors: readonly Tensor[]): readonly (readonly WeightedRows[])[] {
  const ofRows = new Map<Tensor, Map<number, WeightedRows[]>>();
  for (const tensor of tensors.filter(multipliesWeight)) {
    const ofScale = ofRows.get(tensor.inputs[0]) ?? new Map<number, WeightedRows[]>();
    ofRows.set(tensor.inputs[0], ofScale);
    const { scale } = tensor.attributes;
    ofScale.set(scale, [...(ofScale.get(scale) ?? []), tensor]);
  }
  return [...ofRows.values()].flatMap((ofScale) => [...ofScale.values()]);
}

/** Names of the products; undefined if their matrices are not quantized, or cannot be one. */
export function lowerQuantized(
  builder: OnnxBuilder,
  placement: WeightPlacement,
  group: readonly WeightedRows[],
  rows: string,
): ReadonlyMap<Tensor, string> | undefined {
  const matrix = placement.placeQuantized(
    builder,
    group.map(({ inputs }) => inputs[1]),
  );
  if (matrix === undefined) return undefined;
  const all = multiply(builder, group[0]!.attributes.scale, rows, matrix);
  const sizes = builder.integers(matrix.parts.map(([, columns]) => columns));
  const outputs =
    matrix.parts.length === 1
      ? [all]
      : builder.nodeOutputs('Split', [all, sizes], {
          ...{ attributes: { axis: -1 }, outputs: matrix.parts.length },
        });
  const byWeight = new Map(matrix.parts.map(([name], index) => [name, outputs[index]!]));
  return new Map(group.map((product) => [product, byWeight.get(product.inputs[1].attributes.name)!]));
}

/** Level 4: the kernel may quantize the rows to 8 bits, which it multiplies several times faster. */
function multiply(
  builder: OnnxBuilder,
  scale: number,
  rows: string,
  { values, scales, bits, inner, columns }: PlacedMatrix,
): string {
  const product = builder.node('MatMulNBits', [rows, values, scales], {
    domain: 'com.microsoft',
    attributes: { K: inner, N: columns, bits, block_size: quantizedBlock, accuracy_level: 4 },
  });
  return scale === 1 ? product : builder.node('Mul', [product, builder.floats([scale], [])]);
}
