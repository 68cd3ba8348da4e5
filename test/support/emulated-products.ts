/** Products of matrices of the emulated device, held to what cublasLt takes. */
import type { LibraryHandle } from 'koffi';
import koffi from 'koffi';
import { MistletoeError } from '../../src/core/errors.js';
import { isHalf } from '../../src/core/half-floats.js';
import type { ElementType, MatrixOperand, Product } from '../../src/runtime/cuda/driver/device.js';
import type { Allocation, EmulatedMemory } from './emulated-memory.js';
import { describeAddress } from './emulated-memory.js';

/** As the library numbers them. */
const typeNumbers: Partial<Record<ElementType, number>> = { float32: 0, bfloat16: 1, float16: 2 };

interface NamedOperand extends MatrixOperand {
  readonly name: string;
  readonly rows: number;
  readonly columns: number;
}

export function createEmulatedProducts(
  library: LibraryHandle,
  memory: EmulatedMemory,
): (product: Product) => void {
  const multiply = bindMultiply(library);
  return (product) => {
    const { rows, columns, inner, batch, left, right } = product;
    for (const size of [rows, columns, inner, batch])
      if (!Number.isInteger(size) || size < 0)
        throw failure(`[${batch}][${rows}][${inner}][${columns}] is no shape of a product`);
    if (rows * columns * batch === 0) return;
    const result = { ...product.result, transposed: false };
    checkTypes(left.type, right.type, result.type);
    if (inner > 0) {
      checkOperand({ ...left, name: 'left', rows, columns: inner }, batch, memory);
      checkOperand({ ...right, name: 'right', rows: inner, columns }, batch, memory);
      if (result.address === left.address || result.address === right.address)
        throw failure('the result is written over an operand');
    }
    const written = checkOperand({ ...result, name: 'result', rows, columns }, batch, memory);
    if (batch > 1 && result.batchStride < columns)
      throw failure(`results of a stack overlap: their batch stride is ${result.batchStride}`);
    const { addend = 0n } = product;
    if (addend === result.address) throw failure('the result is written over what is added to it');
    if (addend !== 0n)
      checkOperand({ ...result, address: addend, name: 'addend', rows, columns }, batch, memory);
    const sides = { left: toNumbers(left), right: toNumbers(right), result: toNumbers(result) };
    multiply({ ...product, ...sides, addend });
    memory.checkGuards('multiply', written);
  };
}

function checkTypes(left: ElementType, right: ElementType, result: ElementType): void {
  if (typeNumbers[left] === undefined) throw failure(`operands are ${left}, expected float32 or a half type`);
  if (left !== right) throw failure(`left is ${left} and right is ${right}, expected one type`);
  if (result !== left && result !== 'float32')
    throw failure(`the result is ${result}, expected float32 or ${left}, which its operands are`);
}

function checkOperand(operand: NamedOperand, batch: number, memory: EmulatedMemory): Allocation {
  const { name, address, type, rowStride, batchStride, transposed } = operand;
  const [rows, columns] = transposed ? [operand.columns, operand.rows] : [operand.rows, operand.columns];
  if (!Number.isInteger(rowStride) || rowStride < columns)
    throw failure(`${name} has rows of ${columns} elements and a row stride of ${rowStride}`);
  if (!Number.isInteger(batchStride) || batchStride < 0)
    throw failure(`${name} has a batch stride of ${batchStride}`);
  const [bytes, alignment] = isHalf(type) ? [2, 16] : [4, 4];
  if (address % BigInt(alignment) !== 0n)
    throw failure(`${name}, ${type}, lies at ${describeAddress(address)}, no multiple of ${alignment}`);
  const elements = (batch - 1) * batchStride + (rows - 1) * rowStride + columns;
  return memory.find(`multiply, ${name}`, address, elements * bytes);
}

const toNumbers = ({ type, transposed, ...operand }: MatrixOperand): object => ({
  ...operand,
  type: typeNumbers[type],
  transposed: transposed ? 1 : 0,
});

/** Laid out as the structs of the library. */
function bindMultiply(library: LibraryHandle): (product: object) => void {
  const matrix = koffi.struct({
    address: 'uint64_t',
    rowStride: 'int64_t',
    batchStride: 'int64_t',
    type: 'int32_t',
    transposed: 'int32_t',
  });
  const product = koffi.struct({
    rows: 'int64_t',
    columns: 'int64_t',
    inner: 'int64_t',
    batch: 'int64_t',
    left: matrix,
    right: matrix,
    result: matrix,
    addend: 'uint64_t',
    scale: 'float',
  });
  return library.func('multiplyMatrices', 'void', [koffi.pointer(product)]);
}

function failure(message: string): MistletoeError {
  return new MistletoeError('runtime', `multiply: ${message}.`);
}
