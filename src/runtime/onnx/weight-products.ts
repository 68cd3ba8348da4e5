/** The weights that matrix products read. */
import { countElements, formatDimension, symbol } from '../../graph/dimension.js';
import { contract } from '../../graph/operations/contraction.js';
import { input, sortTopologically, type Tensor, type TensorOf } from '../../graph/tensor.js';
import type { NamedTensors } from '../program.js';

export interface WeightProduct {
  readonly weight: TensorOf<'weight'>;
  readonly sizeBytes: number;
  /** The product alone, to find how the kernel reads the weight. */
  readonly alone: Tensor;
  /** Further, different products of the weight. */
  readonly others: readonly Tensor[];
}

export function listProducts(outputs: NamedTensors): ReadonlyMap<string, WeightProduct> {
  const found = new Map<
    string,
    { readonly weight: TensorOf<'weight'>; readonly forms: Map<string, Tensor> }
  >();
  for (const tensor of sortTopologically(Object.values(outputs))) {
    if (tensor.operation !== 'contract') continue;
    for (const [side, weight] of tensor.inputs.entries()) {
      if (weight.operation !== 'weight') continue;
      const { name } = weight.attributes;
      const { forms } = found.get(name) ?? { forms: new Map<string, Tensor>() };
      found.set(name, { weight, forms });
      addForm(forms, tensor, weight, side);
    }
  }
  return new Map(
    [...found].map(([name, { weight, forms }]) => {
      const [alone, ...others] = forms.values();
      const sizeBytes = 4 * (countElements(weight.shape) as number);
      return [name, { weight, sizeBytes, alone: alone!, others }];
    }),
  );
}

function addForm(
  forms: Map<string, Tensor>,
  { inputs, attributes }: TensorOf<'contract'>,
  weight: TensorOf<'weight'>,
  side: number,
): void {
  const equation = `${attributes.left.join(' ')}, ${attributes.right.join(' ')} -> ${attributes.output.join(' ')}`;
  const shape = inputs[1 - side]!.shape.map((size, axis) =>
    typeof size === 'number' ? size : symbol(`size${axis}`),
  );
  const key = JSON.stringify([side, equation, attributes.scale, shape.map(formatDimension)]);
  if (forms.has(key)) return;
  const other = input('other', shape);
  const [left, right] = side === 0 ? [weight, other] : [other, weight];
  forms.set(key, contract(left, right, equation, attributes.scale));
}
