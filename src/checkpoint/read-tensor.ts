/** Reads tensors into typed arrays, one chunk of raw bytes at a time. */
import { readExactly, withFile, type BinaryFile } from './binary-file.js';
import { floatDecoder, integerDecoder, requireLittleEndian, type Decode } from './element-decoding.js';
import { bytesPerElement, countElements, quote, refuse, type StoredTensor } from './stored-tensor.js';

/**
 * A strided tensor (a torch view) is halved along its widest axis until each piece spans at most one chunk of the
 * file. Each piece is read once and scattered to its row-major place.
 */
interface StridedRead<Target> {
  readonly tensor: StoredTensor;
  readonly strides: readonly number[];
  readonly chunkBytes: number;
  readonly target: Target;
  readonly decode: Decode<Target>;
  readonly allocateScratch: (count: number) => Target;
}

interface Region {
  readonly starts: readonly number[];
  readonly sizes: readonly number[];
}

async function fillStrided<Target extends Float32Array | Int32Array | Uint16Array>(
  file: BinaryFile,
  read: StridedRead<Target>,
): Promise<void> {
  const { tensor, strides, chunkBytes } = read;
  const itemBytes = bytesPerElement(tensor.dtype);
  const capacity = Math.min(chunkBytes, tensor.sizeBytes) / itemBytes;
  const raw = new Uint8Array(capacity * itemBytes);
  const values = read.allocateScratch(capacity);
  const pending: Region[] = [{ starts: tensor.shape.map(() => 0), sizes: tensor.shape }];
  for (let region = pending.pop(); region !== undefined; region = pending.pop()) {
    const { starts, sizes } = region;
    const extents = sizes.map((size, axis) => (size - 1) * strides[axis]!);
    const span = extents.reduce((sum, extent) => sum + extent, 1);
    if (span > capacity) {
      pending.push(...halve(region, extents.indexOf(Math.max(...extents))));
      continue;
    }
    const first = starts.reduce((sum, start, axis) => sum + start * strides[axis]!, 0);
    await readExactly(file, tensor.offsetBytes + first * itemBytes, raw.subarray(0, span * itemBytes));
    read.decode(raw, values, 0, span);
    scatter(read, region, values);
  }
}

function halve({ starts, sizes }: Region, axis: number): [Region, Region] {
  const size = sizes[axis]!;
  const half = Math.floor(size / 2);
  return [
    { starts: starts.with(axis, starts[axis]! + half), sizes: sizes.with(axis, size - half) },
    { starts, sizes: sizes.with(axis, half) },
  ];
}

function scatter<Target extends Float32Array | Int32Array | Uint16Array>(
  { tensor, strides, target }: StridedRead<Target>,
  { starts, sizes }: Region,
  values: Target,
): void {
  const rank = sizes.length;
  const targetStrides = new Array<number>(rank).fill(1);
  for (let axis = rank - 2; axis >= 0; axis -= 1) {
    targetStrides[axis] = targetStrides[axis + 1]! * tensor.shape[axis + 1]!;
  }
  const walk = (axis: number, from: number, to: number): void => {
    const size = sizes[axis]!;
    const fromStep = strides[axis]!;
    const toStep = targetStrides[axis]!;
    if (axis === rank - 1) {
      for (let index = 0; index < size; index += 1) target[to + index] = values[from + index * fromStep]!;
      return;
    }
    for (let index = 0; index < size; index += 1)
      walk(axis + 1, from + index * fromStep, to + index * toStep);
  };
  walk(
    0,
    0,
    starts.reduce((sum, start, axis) => sum + start * targetStrides[axis]!, 0),
  );
}

const chunkBytes = 4 * 1024 * 1024;
/** A multiple of every block of quantized elements. */
const chunkStep = 256;

type Values = Float32Array | Int32Array | Uint16Array;

interface Reader<Target extends Values> {
  readonly decode: Decode<Target>;
  readonly allocate: (count: number) => Target;
}

const floats = (tensor: StoredTensor): Reader<Float32Array> => ({
  decode: floatDecoder(tensor),
  allocate: (count) => new Float32Array(count),
});

export async function readFloat32(tensor: StoredTensor): Promise<Float32Array> {
  return await readValues(tensor, floats(tensor));
}

export async function readIntegers(tensor: StoredTensor): Promise<Int32Array> {
  const allocate = (count: number): Int32Array => new Int32Array(count);
  return await readValues(tensor, { decode: integerDecoder(tensor), allocate });
}

async function readValues<Target extends Values>(
  tensor: StoredTensor,
  reader: Reader<Target>,
): Promise<Target> {
  const target = allocate(tensor, reader.allocate);
  await fill(tensor, target, reader);
  if (tensor.interleavedHeads !== undefined) separateHalves(target, tensor.shape, tensor.interleavedHeads);
  return target;
}

/** Rows 2i and 2i + 1 of each head become row i of its first and of its second half. */
function separateHalves(
  values: Values, // [heads * rowsPerHead, columns], or [heads * rowsPerHead]
  [rows = 0]: readonly number[],
  heads: number,
): void {
  if (rows === 0) return;
  const columns = values.length / rows;
  const half = rows / heads / 2;
  for (let start = 0; start < values.length; start += 2 * half * columns) {
    const stored = values.slice(start, start + 2 * half * columns);
    for (let row = 0; row < 2 * half; row += 1) {
      const place = row % 2 === 0 ? row / 2 : half + (row - 1) / 2;
      values.set(stored.subarray(row * columns, (row + 1) * columns), start + place * columns);
    }
  }
}

/** Whole rows; `values` is scratch, valid until the visitor's promise settles. */
export interface RowBlock<Target = Float32Array> {
  readonly values: Target; // [rowCount, columns]
  readonly firstRow: number;
  readonly rowCount: number;
}

type Visit<Target> = (block: RowBlock<Target>) => Promise<void> | void;

/** The tensor as [rows, columns], in blocks of rows. */
export async function visitRows(tensor: StoredTensor, visit: Visit<Float32Array>): Promise<void> {
  await visitBlocks(tensor, floats(tensor), visit);
}

export function visitHalfRows(tensor: StoredTensor, visit: Visit<Uint16Array>): Promise<void> {
  requireLittleEndian();
  const reader: Reader<Uint16Array> = {
    allocate: (count) => new Uint16Array(count),
    decode(raw, target, start, count) {
      target.set(new Uint16Array(raw.buffer, raw.byteOffset, count), start);
    },
  };
  return visitBlocks(tensor, reader, visit);
}

async function visitBlocks<Target extends Values>(
  tensor: StoredTensor,
  reader: Reader<Target>,
  visit: Visit<Target>,
): Promise<void> {
  const count = elementCount(tensor);
  if (count === 0) return;
  const columns = tensor.shape.at(-1) ?? 1;
  const rows = count / columns;
  const rowsPerBlock = Math.min(rows, Math.max(1, Math.floor(chunkBytes / 4 / columns)));
  const cut = (values: Target, from: number, to: number): Target => values.subarray(from, to) as Target;
  if (tensor.strides !== undefined || tensor.interleavedHeads !== undefined) {
    const values = await readValues(tensor, reader);
    for (let firstRow = 0; firstRow < rows; firstRow += rowsPerBlock) {
      const rowCount = Math.min(rowsPerBlock, rows - firstRow);
      const block = cut(values, firstRow * columns, (firstRow + rowCount) * columns);
      await visit({ values: block, firstRow, rowCount });
    }
    return;
  }
  const itemBytes = bytesPerElement(tensor.dtype);
  await withFile(tensor.file, async (file) => {
    const raw = allocate(tensor, () => new Uint8Array(rowsPerBlock * columns * itemBytes));
    const scratch = allocate(tensor, () => reader.allocate(rowsPerBlock * columns));
    for (let firstRow = 0; firstRow < rows; firstRow += rowsPerBlock) {
      const rowCount = Math.min(rowsPerBlock, rows - firstRow);
      const elements = rowCount * columns;
      await readExactly(
        file,
        tensor.offsetBytes + firstRow * columns * itemBytes,
        raw.subarray(0, elements * itemBytes),
      );
      reader.decode(raw, scratch, 0, elements);
      await visit({ values: cut(scratch, 0, elements), firstRow, rowCount });
    }
  });
}

function fill<Target extends Values>(
  tensor: StoredTensor,
  target: Target,
  { decode, allocate: allocateScratch }: Reader<Target>,
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

async function fillContiguous<Target extends Values>(
  file: BinaryFile,
  tensor: StoredTensor,
  target: Target,
  decode: Decode<Target>,
): Promise<void> {
  const itemBytes = bytesPerElement(tensor.dtype);
  const chunk = Math.min(target.length, chunkStep * Math.floor(chunkBytes / itemBytes / chunkStep));
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
