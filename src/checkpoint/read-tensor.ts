/** Tensors from their files into typed arrays, in chunks: beyond the result, memory holds one chunk of raw bytes. */
import type { BinaryFile } from './binary-file.js';
import { readExactly, withFile } from './binary-file.js';
import type { Decode } from './element-decoding.js';
import { floatDecoder, integerDecoder } from './element-decoding.js';
import type { StoredTensor } from './stored-tensor.js';
import { bytesPerElement, countElements, quote, refuse } from './stored-tensor.js';
import { fillStrided } from './strided-read.js';

const chunkBytes = 4 * 1024 * 1024;

export async function readFloat32(tensor: StoredTensor): Promise<Float32Array> {
  const decode = floatDecoder(tensor);
  const target = allocate(tensor, (count) => new Float32Array(count));
  await fill(tensor, target, decode, (count) => new Float32Array(count));
  return target;
}

export async function readIntegers(tensor: StoredTensor): Promise<Int32Array> {
  const decode = integerDecoder(tensor);
  const target = allocate(tensor, (count) => new Int32Array(count));
  await fill(tensor, target, decode, (count) => new Int32Array(count));
  return target;
}

/** Consecutive whole rows; `values` is scratch and only valid until the visitor's promise is done. */
export interface RowBlock {
  readonly values: Float32Array; // [rowCount, columns]
  readonly firstRow: number;
  readonly rowCount: number;
}

/** The tensor as [rows, columns] with columns = its last axis, in blocks of rows from the first to the last. */
export async function visitRows(
  tensor: StoredTensor,
  visit: (block: RowBlock) => Promise<void> | void,
): Promise<void> {
  const count = elementCount(tensor);
  if (count === 0) return;
  const columns = tensor.shape.at(-1) ?? 1;
  const rows = count / columns;
  const rowsPerBlock = Math.min(rows, Math.max(1, Math.floor(chunkBytes / 4 / columns)));
  if (tensor.strides !== undefined) {
    const values = await readFloat32(tensor);
    for (let firstRow = 0; firstRow < rows; firstRow += rowsPerBlock) {
      const rowCount = Math.min(rowsPerBlock, rows - firstRow);
      const block = values.subarray(firstRow * columns, (firstRow + rowCount) * columns);
      await visit({ values: block, firstRow, rowCount });
    }
    return;
  }
  const decode = floatDecoder(tensor);
  const itemBytes = bytesPerElement(tensor.dtype);
  await withFile(tensor.file, async (file) => {
    const raw = allocate(tensor, () => new Uint8Array(rowsPerBlock * columns * itemBytes));
    const scratch = allocate(tensor, () => new Float32Array(rowsPerBlock * columns));
    for (let firstRow = 0; firstRow < rows; firstRow += rowsPerBlock) {
      const rowCount = Math.min(rowsPerBlock, rows - firstRow);
      const elements = rowCount * columns;
      await readExactly(
        file,
        tensor.offsetBytes + firstRow * columns * itemBytes,
        raw.subarray(0, elements * itemBytes),
      );
      decode(raw, scratch, 0, elements);
      await visit({ values: scratch.subarray(0, elements), firstRow, rowCount });
    }
  });
}

function fill<Target extends Float32Array | Int32Array>(
  tensor: StoredTensor,
  target: Target,
  decode: Decode<Target>,
  allocateScratch: (count: number) => Target,
): Promise<void> {
  return withFile(tensor.file, async (file) => {
    if (target.length === 0) return;
    requireWithin(tensor, file);
    if (tensor.strides === undefined) await fillContiguous(file, tensor, target, decode);
    else
      await fillStrided(file, {
        tensor,
        strides: tensor.strides,
        chunkBytes,
        target,
        decode,
        allocateScratch,
      });
  });
}

export function requireWithin({ name, offsetBytes, sizeBytes }: StoredTensor, file: BinaryFile): void {
  if (offsetBytes + sizeBytes <= file.sizeBytes) return;
  throw refuse(
    `tensor ${quote(name)} ends at byte ${offsetBytes + sizeBytes}, but ${file.path} has ${file.sizeBytes} bytes`,
    'The file was changed after it was opened: open the checkpoint again.',
  );
}

async function fillContiguous<Target extends Float32Array | Int32Array>(
  file: BinaryFile,
  tensor: StoredTensor,
  target: Target,
  decode: Decode<Target>,
): Promise<void> {
  const itemBytes = bytesPerElement(tensor.dtype);
  const chunk = Math.min(target.length, chunkBytes / itemBytes);
  const raw = new Uint8Array(chunk * itemBytes);
  for (let start = 0; start < target.length; start += chunk) {
    const count = Math.min(chunk, target.length - start);
    await readExactly(file, tensor.offsetBytes + start * itemBytes, raw.subarray(0, count * itemBytes));
    decode(raw, target, start, count);
  }
}

function elementCount(tensor: StoredTensor): number {
  return countElements(tensor.shape) ?? 0;
}

function allocate<Result>(tensor: StoredTensor, make: (count: number) => Result): Result {
  try {
    return make(elementCount(tensor));
  } catch (cause) {
    throw refuse(
      `tensor ${quote(tensor.name)} has ${elementCount(tensor)} elements, more than memory can take at once`,
      'Use a machine with more memory.',
      cause,
    );
  }
}
