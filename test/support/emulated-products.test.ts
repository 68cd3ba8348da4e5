import { expect, it } from 'vitest';
import type { HalfType } from '../../src/core/half-floats.js';
import { decodeHalves, encodeHalves, isHalf, roundToHalf } from '../../src/core/half-floats.js';
import type { ElementType, MatrixOperand, Product } from '../../src/runtime/cuda/driver/device.js';
import { describeEmulated, floats } from './emulated-suite.js';

type FloatType = 'float32' | HalfType;

const sizes = { rows: 3, columns: 5, inner: 7, batch: 2 };
const encode = (values: Float32Array, type: FloatType): ArrayBufferView =>
  isHalf(type) ? encodeHalves(values, type) : values;
const bytesOf = (type: ElementType): number => (isHalf(type) ? 2 : 4);

describeEmulated('products of the emulated device', (bench) => {
  /** A stack of matrices whose elements are multiples of 1/4, which every type holds, with space after rows and matrices. */
  function placeOperand(rows: number, columns: number, type: FloatType, transposed: boolean, shared = false) {
    const rowStride = (transposed ? rows : columns) + 3;
    const batchStride = shared ? 0 : rowStride * (transposed ? columns : rows) + 2;
    const length = batchStride + rowStride * (transposed ? columns : rows);
    const values = floats(length, (index) => (((index * 37 + rows) % 23) - 11) / 4);
    const operand: MatrixOperand = {
      address: bench.place(encode(values, type)),
      type,
      rowStride,
      batchStride,
      transposed,
    };
    const at = (batch: number, row: number, column: number): number =>
      values[batch * batchStride + (transposed ? column * rowStride + row : row * rowStride + column)]!;
    return { operand, at };
  }
  async function readResult(result: Product['result'], length: number): Promise<number[]> {
    if (!isHalf(result.type)) return bench.fetchFloats(result.address, length);
    const bits = new Uint16Array(length);
    await bench.device.download(result.address, bits);
    return [...decodeHalves(bits, result.type)];
  }
  function createProduct(type: FloatType, resultType: ElementType): Product {
    const { rows, columns, inner, batch } = sizes;
    const length = batch * rows * columns;
    return {
      ...sizes,
      scale: 1,
      left: placeOperand(rows, inner, type, false).operand,
      right: placeOperand(inner, columns, type, false).operand,
      result: {
        address: bench.device.allocate(length * bytesOf(resultType)),
        type: resultType,
        rowStride: columns,
        batchStride: rows * columns,
      },
    };
  }

  it('add what is given to the product', async () => {
    const product = createProduct('bfloat16', 'float32');
    const length = sizes.batch * sizes.rows * sizes.columns;
    bench.device.multiply(product);
    const plain = await readResult(product.result, length);
    const addend = bench.place(floats(length, (index) => index));
    bench.device.multiply({ ...product, addend });
    expect(await readResult(product.result, length)).toEqual(plain.map((value, index) => value + index));
    expect(() => {
      bench.device.multiply({ ...product, addend: product.result.address });
    }).toThrow('written over what is added');
  });

  const types: readonly (readonly [FloatType, FloatType])[] = [
    ['float32', 'float32'],
    ['bfloat16', 'float32'],
    ['bfloat16', 'bfloat16'],
    ['float16', 'float32'],
    ['float16', 'float16'],
  ];
  const layouts = [
    [false, false],
    [false, true],
    [true, false],
    [true, true],
  ] as const;
  const cases = types.flatMap(([type, resultType]) =>
    layouts.flatMap(([left, right]) =>
      [false, true].map((shared) => ({ type, resultType, left, right, shared })),
    ),
  );

  it.each(cases)(
    '$type to $resultType, transposed: $left $right, one right operand for all: $shared',
    async ({ type, resultType, left, right, shared }) => {
      const { rows, columns, inner, batch } = sizes;
      const first = placeOperand(rows, inner, type, left);
      const second = placeOperand(inner, columns, type, right, shared);
      const [rowStride, batchStride] = [columns + 1, rows * (columns + 1) + 4];
      const length = batch * batchStride;
      const address = bench.place(encode(new Float32Array(length).fill(-1), resultType));
      const result = { address, type: resultType, rowStride, batchStride };
      bench.device.multiply({ ...sizes, scale: 0.3, left: first.operand, right: second.operand, result });

      const expected = new Array<number>(length).fill(-1);
      for (let b = 0; b < batch; b++)
        for (let row = 0; row < rows; row++)
          for (let column = 0; column < columns; column++) {
            let sum = 0;
            for (let k = 0; k < inner; k++) sum += first.at(b, row, k) * second.at(b, k, column);
            const value = Math.fround(Math.fround(0.3) * sum);
            const stored = isHalf(resultType) ? roundToHalf(value, resultType) : value;
            expected[b * batchStride + row * rowStride + column] = stored;
          }
      expect(await readResult(result, length)).toEqual(expected);
    },
  );

  it('sum in float32', async () => {
    const values = bench.place(Float32Array.of(2 ** 24, 1, 1));
    const ones = bench.place(Float32Array.of(1, 1, 1));
    const operand = { type: 'float32', batchStride: 0, transposed: false } as const;
    const result = {
      address: bench.device.allocate(4),
      type: 'float32',
      rowStride: 1,
      batchStride: 0,
    } as const;
    bench.device.multiply({
      rows: 1,
      columns: 1,
      inner: 3,
      batch: 1,
      scale: 1,
      left: { ...operand, address: values, rowStride: 3 },
      right: { ...operand, address: ones, rowStride: 1 },
      result,
    });
    expect(await bench.fetchFloats(result.address, 1)).toEqual([2 ** 24]);
  });

  it('are 0 over no elements, and nothing where they have none', async () => {
    const product = createProduct('float32', 'float32');
    const count = sizes.batch * sizes.rows * sizes.columns;
    bench.device.multiply({ ...product, rows: 0 });
    expect(await readResult(product.result, count)).toEqual(new Array(count).fill(NaN));
    bench.device.multiply({ ...product, inner: 0 });
    expect(await readResult(product.result, count)).toEqual(new Array(count).fill(0));
  });

  it.each<{
    why: string;
    message: string;
    types?: [FloatType, ElementType];
    change: (p: Product) => Product;
  }>([
    {
      why: 'operands of two types',
      message: 'left is float32 and right is bfloat16',
      change: (product) => ({ ...product, right: { ...product.right, type: 'bfloat16' } }),
    },
    {
      why: 'operands that are no floats',
      message: 'operands are int32',
      change: (p) => ({ ...p, left: { ...p.left, type: 'int32' }, right: { ...p.right, type: 'int32' } }),
    },
    {
      why: 'halves from float32',
      message: 'the result is float16',
      types: ['float32', 'float16'],
      change: (product) => product,
    },
    {
      why: 'halves between multiples of 16 bytes',
      message: 'no multiple of 16',
      types: ['bfloat16', 'float32'],
      change: (product) => ({ ...product, left: { ...product.left, address: product.left.address + 8n } }),
    },
    {
      why: 'an operand shorter than its strides say',
      message: 'multiply, left: ',
      change: (product) => ({ ...product, left: { ...product.left, batchStride: 1000 } }),
    },
    {
      why: 'rows that overlap',
      message: 'right has rows of 5 elements and a row stride of 4',
      change: (product) => ({ ...product, right: { ...product.right, rowStride: 4 } }),
    },
    {
      why: 'results over each other',
      message: 'results of a stack overlap',
      change: (product) => ({ ...product, result: { ...product.result, batchStride: 0 } }),
    },
    {
      why: 'a result over an operand',
      message: 'written over an operand',
      change: (product) => ({ ...product, result: { ...product.result, address: product.left.address } }),
    },
    {
      why: 'a size below 0',
      message: 'no shape of a product',
      change: (product) => ({ ...product, inner: -1 }),
    },
  ])('are refused: $why', ({ message, types: [type, resultType] = ['float32', 'float32'], change }) => {
    const product = createProduct(type, resultType);
    expect(() => {
      bench.device.multiply(change(product));
    }).toThrow(message);
  });
});
