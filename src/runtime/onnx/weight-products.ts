/** Which weights the matrix products of a graph read. Tables that are only looked up are none. */
import { countElements, symbol } from '../../graph/dimension.js';
import { contract } from '../../graph/operations/contraction.js';
import { input } from '../../graph/operations/leaves.js';
import type { Tensor, TensorOf } from '../../graph/tensor.js';
import { sortTopologically } from '../../graph/tensor.js';
import type { NamedTensors } from '../program.js';

export interface WeightProduct {
  readonly weight: TensorOf<'weight'>;
  readonly sizeBytes: number;
  /** The product alone, with any value for its other side: how the kernel reads the weight shows in it. */
  readonly alone: Tensor;
}

/** The first product of each weight, by the weight's name. */
export function listProducts(outputs: NamedTensors): ReadonlyMap<string, WeightProduct> {
  const products = new Map<string, WeightProduct>();
  for (const tensor of sortTopologically(Object.values(outputs))) {
    if (tensor.operation !== 'contract') continue;
    for (const [side, weight] of tensor.inputs.entries()) {
      if (weight.operation !== 'weight' || products.has(weight.attributes.name)) continue;
      products.set(weight.attributes.name, describeProduct(tensor, weight, side));
    }
  }
  return products;
}

function describeProduct(
  { inputs, attributes }: TensorOf<'contract'>,
  weight: TensorOf<'weight'>,
  side: number,
): WeightProduct {
  const equation = `${attributes.left.join(' ')}, ${attributes.right.join(' ')} -> ${attributes.output.join(' ')}`;
  const shape = inputs[1 - side]!.shape.map((size, axis) =>
    typeof size === 'number' ? size : symbol(`size${axis}`),
  );
  const other = input('other', shape);
  const [left, right] = side === 0 ? [weight, other] : [other, weight];
  return {
    weight,
    sizeBytes: 4 * (countElements(weight.shape) as number),
    alone: contract(left, right, equation, attributes.scale),
  };
}
