/** A contraction as one product call: sizes and strides. */
import { MistletoeError } from '../../../core/errors.js';
import { readMatrixProduct, type SideLayout } from '../../../graph/contraction-plan.js';
import type { Shape } from '../../../graph/dimension.js';
import type { TensorOf } from '../../../graph/tensor.js';
import type { FloatType, MatrixOperand, Product } from '../driver/device.js';
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

// Row-major products for cuBLASLt, which computes D = op(A) op(B) with column-major matrices. Row-major memory is the
// column-major transpose and (L R)ᵀ = Rᵀ Lᵀ, so A is the right side, B the left, and nothing is moved.
export interface ColumnMajorOperand {
  readonly address: bigint;
  readonly type: FloatType;
  readonly rows: number;
  readonly columns: number;
  readonly leadingDimension: number;
  readonly batchStride: number;
  readonly transposed: boolean;
  readonly alignment: number;
}

export interface ColumnMajorProduct {
  readonly a: ColumnMajorOperand;
  readonly b: ColumnMajorOperand;
  readonly d: ColumnMajorOperand;
  readonly batch: number;
}

export function toColumnMajor(product: Product): ColumnMajorProduct {
  const { rows, columns, inner, batch, left, right } = product;
  for (const [name, size] of Object.entries({ rows, columns, inner, batch })) {
    if (!Number.isSafeInteger(size) || size < 1)
      refuse(product, `${name} must be a whole number above 0, not ${size}`);
  }
  if (left.type !== right.type) refuse(product, 'left and right must be of one type');
  const result = { ...product.result, transposed: false };
  if (result.type !== 'float32' && result.type !== left.type) {
    refuse(product, "the result must be float32 or of its operands' type");
  }
  if (batch > 1 && result.batchStride < columns) refuse(product, 'the results of a stack would overlap');
  if (product.addend === result.address)
    refuse(product, 'the result would be written over what is added to it');
  const d = readByColumns(product, result, rows, columns);
  return {
    a: readByColumns(product, right, inner, columns),
    b: readByColumns(product, left, rows, inner),
    d: { ...d, alignment: Math.min(d.alignment, alignmentOf(product.addend ?? 0n)) },
    batch,
  };
}

function readByColumns(
  product: Product,
  operand: MatrixOperand,
  rows: number,
  columns: number,
): ColumnMajorOperand {
  const { address, type, transposed, rowStride } = operand;
  if (type !== 'float32' && type !== 'bfloat16' && type !== 'float16') {
    return refuse(product, `operands must be float32, bfloat16 or float16, not ${type}`);
  }
  const [storedRows, storedColumns] = transposed ? [columns, rows] : [rows, columns];
  if (storedRows > 1 && rowStride < storedColumns) {
    refuse(product, `rows of ${storedColumns} elements overlap, ${rowStride} apart`);
  }
  return {
    address,
    type,
    rows: storedColumns,
    columns: storedRows,
    // The stride of a single row is unused and may be anything.
    leadingDimension: Math.max(rowStride, storedColumns),
    batchStride: product.batch === 1 ? 0 : operand.batchStride,
    transposed,
    alignment: alignmentOf(address),
  };
}

function alignmentOf(address: bigint): number {
  const low = Number(address & 255n);
  return low === 0 ? 256 : low & -low;
}

/** Products with one key differ only in addresses and scale. */
export function productKey({ a, b, d, batch }: ColumnMajorProduct): string {
  const parts = [a, b, d].map(
    ({ type, rows, columns, leadingDimension, batchStride, transposed, alignment }) =>
      `${type} ${rows} ${columns} ${leadingDimension} ${batchStride} ${transposed ? 't' : 'n'} ${alignment}`,
  );
  return `${parts.join(', ')} x ${batch}`;
}

export function describeProduct({ rows, columns, inner, batch, left, right, result }: Product): string {
  const stack = batch === 1 ? '' : `${batch} times `;
  return `${stack}[${rows}, ${inner}] ${left.type} by [${inner}, ${columns}] ${right.type} to ${result.type}`;
}

function refuse(product: Product, reason: string): never {
  throw new MistletoeError('runtime', `The product ${describeProduct(product)} cannot be made: ${reason}.`);
}
