/** Products of all layouts, and what they have to give, made element by element. */
import type {
  Address,
  FloatType,
  MatrixOperand,
  Product,
} from '../../../../src/runtime/cuda/driver/device.js';

export interface ProductCase {
  readonly name: string;
  readonly type: FloatType;
  readonly resultType: FloatType;
  readonly rows: number;
  readonly columns: number;
  readonly inner: number;
  readonly batch: number;
  readonly scale: number;
  readonly left: OperandLayout;
  readonly right: OperandLayout;
  readonly result: OperandLayout;
}

/** Where in a buffer the elements of an operand lie. */
export interface OperandLayout {
  /** Elements before the first. */
  readonly offset: number;
  readonly rowStride: number;
  readonly batchStride: number;
  readonly transposed: boolean;
  /** Elements of the whole buffer. */
  readonly length: number;
}

type Arrangement = 'packed' | 'padded' | 'interleaved' | 'shared';

/** Interleaved: rows of all matrices of the stack lie next to each other, as the heads of attention do. */
function arrange(
  arrangement: Arrangement,
  [rows, columns, batch]: readonly [number, number, number],
  transposed: boolean,
  offset = 0,
): OperandLayout {
  const [height, width] = transposed ? [columns, rows] : [rows, columns];
  const padding = arrangement === 'padded' ? 3 : 0;
  const rowStride = arrangement === 'interleaved' ? width * batch : width + padding;
  const batchStride =
    arrangement === 'interleaved' ? width : arrangement === 'shared' ? 0 : rowStride * height + 2 * padding;
  const length = offset + batchStride * (batch - 1) + rowStride * (height - 1) + width;
  return { offset, rowStride, batchStride, transposed, length };
}

const shapes = [
  { rows: 5, columns: 7, inner: 6, batch: 1 },
  { rows: 1, columns: 32, inner: 64, batch: 1 },
  { rows: 33, columns: 1, inner: 17, batch: 1 },
  { rows: 4, columns: 1, inner: 1, batch: 3 },
  { rows: 16, columns: 24, inner: 8, batch: 3 },
  { rows: 20, columns: 33, inner: 300, batch: 2 },
];
const types = [
  ['float32', 'float32'],
  ['bfloat16', 'float32'],
  ['bfloat16', 'bfloat16'],
  ['float16', 'float32'],
  ['float16', 'float16'],
] as const;
const arrangements: readonly (readonly [left: Arrangement, right: Arrangement, result: Arrangement])[] = [
  ['packed', 'packed', 'packed'],
  ['padded', 'padded', 'padded'],
  ['interleaved', 'interleaved', 'interleaved'],
  ['packed', 'shared', 'packed'],
];

export function productCases(): ProductCase[] {
  const cases: ProductCase[] = [];
  for (const shape of shapes) {
    for (const [type, resultType] of types) {
      for (const [leftBy, rightBy, resultBy] of arrangements) {
        for (const [leftTurned, rightTurned] of turns) {
          const { rows, columns, inner, batch } = shape;
          // An odd offset: addresses are not always as aligned as allocations are.
          const offset = leftBy === 'padded' ? 1 : 0;
          cases.push({
            name:
              `${type} to ${resultType}, ${batch} x [${rows}, ${inner}] [${inner}, ${columns}], ` +
              `${leftBy}${leftTurned ? ' transposed' : ''} by ${rightBy}${rightTurned ? ' transposed' : ''}`,
            ...shape,
            type,
            resultType,
            scale: leftBy === 'packed' ? 1 : 0.375,
            left: arrange(leftBy, [rows, inner, batch], leftTurned, offset),
            right: arrange(rightBy, [inner, columns, batch], rightTurned, offset),
            result: arrange(resultBy, [rows, columns, batch], false, offset),
          });
        }
      }
    }
  }
  return cases;
}

const turns = [
  [false, false],
  [true, false],
  [false, true],
  [true, true],
] as const;

/** The product for the device, its operands at these addresses. */
export function productAt(
  { type, resultType, left, right, result, ...sizes }: ProductCase,
  [leftAt, rightAt, resultAt]: readonly [Address, Address, Address],
): Product {
  const operand = (layout: OperandLayout, elementType: FloatType, address: Address): MatrixOperand => ({
    address: address + BigInt(layout.offset * elementSize(elementType)),
    type: elementType,
    rowStride: layout.rowStride,
    batchStride: layout.batchStride,
    transposed: layout.transposed,
  });
  return {
    ...sizes,
    left: operand(left, type, leftAt),
    right: operand(right, type, rightAt),
    result: operand(result, resultType, resultAt),
  };
}

export const elementSize = (type: FloatType): number => (type === 'float32' ? 4 : 2);

/** Index in the buffer of element [row][column] of one matrix of the stack. */
export function indexOf(layout: OperandLayout, index: number, row: number, column: number): number {
  const [storedRow, storedColumn] = layout.transposed ? [column, row] : [row, column];
  return layout.offset + index * layout.batchStride + storedRow * layout.rowStride + storedColumn;
}

/** The result's buffer; elements that the product leaves alone are NaN. */
export function naiveProduct(
  { rows, columns, inner, batch, scale, left, right, result }: ProductCase,
  leftValues: ArrayLike<number>,
  rightValues: ArrayLike<number>,
): Float64Array {
  const values = new Float64Array(result.length).fill(Number.NaN);
  for (let index = 0; index < batch; index++) {
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        let sum = 0;
        for (let k = 0; k < inner; k++) {
          sum += leftValues[indexOf(left, index, row, k)]! * rightValues[indexOf(right, index, k, column)]!;
        }
        values[indexOf(result, index, row, column)] = scale * sum;
      }
    }
  }
  return values;
}

/** Numbers between -1 and 1 that every run has alike. */
export function sampleValues(length: number, seed: number): Float32Array {
  let state = seed;
  return Float32Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}
