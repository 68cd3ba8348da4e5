import { describe, expect, it } from 'vitest';
import {
  type ColumnMajorOperand,
  type ColumnMajorProduct,
  productKey,
  toColumnMajor,
} from './product-shape.js';
import type { Product } from '../driver/device.js';
import type { ProductCase } from '../../../../test/support/runtime/cuda/product-cases.js';
import {
  elementSize,
  naiveProduct,
  productAt,
  productCases,
  sampleValues,
} from '../../../../test/support/runtime/cuda/product-cases.js';

/** What cuBLASLt is documented to do with its arguments: D = scale * op(A) op(B), all matrices by columns. */
function multiplyByColumns(
  { a, b, d, batch }: ColumnMajorProduct,
  scale: number,
  [aValues, bValues, dValues]: readonly [Float32Array, Float32Array, Float64Array],
): void {
  const start = ({ address, type }: ColumnMajorOperand): number => Number(address) / elementSize(type);
  const at = (operand: ColumnMajorOperand, index: number, row: number, column: number): number => {
    const [i, j] = operand.transposed ? [column, row] : [row, column];
    if (i >= operand.rows || j >= operand.columns) throw new Error(`[${i}, ${j}] lies outside`);
    return start(operand) + index * operand.batchStride + i + j * operand.leadingDimension;
  };
  const inner = a.transposed ? a.rows : a.columns;
  for (let index = 0; index < batch; index++) {
    for (let column = 0; column < d.columns; column++) {
      for (let row = 0; row < d.rows; row++) {
        let sum = 0;
        for (let k = 0; k < inner; k++)
          sum += bValues[at(b, index, k, column)]! * aValues[at(a, index, row, k)]!;
        dValues[at(d, index, row, column)] = scale * sum;
      }
    }
  }
}

const [small] = productCases();
const addresses = [0n, 0n, 0n] as const;
const change = (changes: Partial<Product>): Product => ({ ...productAt(small!, addresses), ...changes });

describe('products by columns', () => {
  // Types change nothing but the size of an element, so most cases would be the same again.
  const cases = productCases().filter(
    ({ type, resultType, inner }) => type === resultType && type !== 'float16' && inner < 100,
  );

  it.each(cases)('$name', (each: ProductCase) => {
    const left = sampleValues(each.left.length, 1);
    const right = sampleValues(each.right.length, 2);
    const found = new Float64Array(each.result.length).fill(Number.NaN);
    multiplyByColumns(toColumnMajor(productAt(each, addresses)), each.scale, [right, left, found]);
    expect(found).toEqual(naiveProduct(each, left, right));
  });

  it('have leading dimensions that cuBLASLt takes, also for single rows', () => {
    const operand = {
      address: 0n,
      type: 'float32',
      rowStride: 0,
      batchStride: 0,
      transposed: false,
    } as const;
    const { b, d } = toColumnMajor(
      change({ rows: 1, left: { ...operand, rowStride: 1 }, result: { ...operand, rowStride: 2 } }),
    );
    expect([b.leadingDimension, d.leadingDimension]).toEqual([b.rows, d.rows]);
  });

  it.each([
    [change({ inner: 0 }), 'inner must be a whole number above 0, not 0'],
    [change({ rows: 1.5 }), 'rows must be a whole number above 0, not 1.5'],
    [change({ left: { ...change({}).left, type: 'int32' } }), 'left and right must be of one type'],
    [change({ result: { ...change({}).result, type: 'float16' } }), "float32 or of its operands' type"],
    [change({ left: { ...change({}).left, rowStride: 2 } }), 'rows of 6 elements overlap, 2 apart'],
    [change({ batch: 2, result: { ...change({}).result, batchStride: 0 } }), 'a stack would overlap'],
    [change({ addend: 0n }), 'written over what is added to it'],
  ])('are refused where they make no sense (%#)', (product, reason) => {
    expect(() => toColumnMajor(product)).toThrow(reason);
  });
});

describe('the key of a product', () => {
  const keyOf = (changes: Partial<Product>): string => productKey(toColumnMajor(change(changes)));
  const { left } = change({});

  it('is the same for other addresses of the same alignment, and for another scale', () => {
    const moved = { ...left, address: 4096n };
    expect(keyOf({ left: moved, scale: 5 })).toBe(keyOf({}));
    expect(keyOf({ batch: 1, left: { ...left, batchStride: 99 } })).toBe(keyOf({}));
  });

  it.each([
    { left: { ...left, address: 16n } },
    { addend: 16n },
    { left: { ...left, rowStride: 9 } },
    { left: { ...left, transposed: true } },
    { rows: 4 },
    { columns: 6 },
    { inner: 5 },
    { batch: 2, result: { ...change({}).result, batchStride: 35 } },
    { left: { ...left, type: 'bfloat16' }, right: { ...change({}).right, type: 'bfloat16' } },
  ] satisfies Partial<Product>[])('is another one for another layout (%#)', (changes) => {
    expect(keyOf(changes)).not.toBe(keyOf({}));
  });

  it.each([
    [0n, 256],
    [512n, 256],
    [128n, 128],
    [2n, 2],
    [24n, 8],
  ])('knows how %d is aligned: to %d', (address, alignment) => {
    expect(toColumnMajor(change({ left: { ...left, address } })).b.alignment).toBe(alignment);
  });
});
