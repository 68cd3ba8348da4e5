/** A contraction as one product call: sizes and strides. */
import { MistletoeError } from '../../../core/errors.js';
import type { SideLayout } from '../../../graph/contraction-plan.js';
import { readMatrixProduct } from '../../../graph/contraction-plan.js';
import type { Shape } from '../../../graph/dimension.js';
import type { TensorOf } from '../../../graph/tensor.js';
import type { MatrixOperand, Product } from '../driver/device.js';
import type { Place } from './step.js';

type LaidOperand = Omit<MatrixOperand, 'address'>;
export interface ProductShape extends Omit<Product, 'left' | 'right' | 'result'> {
  readonly left: LaidOperand;
  readonly right: LaidOperand;
  readonly result: Omit<LaidOperand, 'transposed'>;
}

export function requireProduct(tensor: TensorOf<'contract'>) {
  const product = readMatrixProduct(tensor.attributes);
  if (product !== undefined) return product;
  throw new MistletoeError('runtime', 'A contraction was lowered before it was planned as a product.');
}

export function shapeProduct(
  tensor: TensorOf<'contract'>,
  [left, right, result]: readonly [Place, Place, Place],
  sizesOf: (shape: Shape) => readonly number[],
): ProductShape {
  const layout = requireProduct(tensor);
  const output = sizesOf(tensor.shape);
  const columns = output.at(-1)!;
  const [leftSizes, rightSizes] = tensor.inputs.map(({ shape }) => sizesOf(shape)) as [number[], number[]];
  const isStack = tensor.shape.length === 3 && rightSizes.length === 3;
  const batch = isStack ? output[0]! : 1;
  const rows = isStack ? output[1]! : output.slice(0, -1).reduce((product, each) => product * each, 1);
  const count = (sizes: readonly number[]): number => sizes.reduce((product, each) => product * each, 1);
  const inner = rows === 0 || batch === 0 ? 0 : count(leftSizes) / (batch * rows);
  const side = (place: Place, { batchInside, ...own }: SideLayout, outer: number) => {
    const innerFirst = own.innerFirst !== (place.isTransposed ?? false);
    const [first, lastSize] = innerFirst ? [inner, outer] : [outer, inner];
    return {
      type: place.type,
      rowStride: batchInside ? batch * lastSize : lastSize,
      batchStride: batchInside ? lastSize : first * lastSize,
      innerFirst,
    };
  };
  const [{ innerFirst: isLeftTurned, ...laidLeft }, { innerFirst: isRightPlain, ...laidRight }] = [
    side(left, layout.left, rows),
    side(right, layout.right, columns),
  ];
  return {
    rows,
    columns,
    inner,
    batch,
    scale: tensor.attributes.scale,
    left: { ...laidLeft, transposed: isLeftTurned },
    right: { ...laidRight, transposed: !isRightPlain },
    result: { type: result.type, rowStride: columns, batchStride: rows * columns },
  };
}
