/** Reads tensors into typed arrays, whole or row by row, one piece of raw bytes at a time. */
import { openFile, readExactly, withFile, type BinaryFile } from './binary-file.js';
import {
  floatDecoder,
  halvesOf,
  integerDecoder,
  requireLittleEndian,
  type Decode,
} from './element-decoding.js';
import { bytesPerElement, countElements, quote, refuse, type StoredTensor } from './stored-tensor.js';

/** Max bytes of a piece, unless one row is larger. */
const defaultPieceBytes = 4 * 1024 * 1024;
/** One piece is used while the others are read. */
const piecesInMemory = 4;

/** A row-major tensor in whole rows. A piece is valid until the next is requested. */
export async function* readRaw(
  tensor: StoredTensor,
  pieceBytes = defaultPieceBytes,
): AsyncGenerator<Uint8Array> {
  const totalBytes = countElements(tensor.shape)! * bytesPerElement(tensor.dtype);
  if (totalBytes === 0) return;
  const rowBytes = (tensor.shape.at(-1) ?? 1) * bytesPerElement(tensor.dtype);
  const stepBytes = Math.min(totalBytes, rowBytes * Math.max(1, Math.floor(pieceBytes / rowBytes)));
  const pieceCount = Math.ceil(totalBytes / stepBytes);
  const file = await openFile(tensor.file);
  const pending: Promise<Uint8Array>[] = [];
  const buffers: Uint8Array[] = [];
  try {
    requireWithin(tensor, file);
    const bufferBytes = pieceCount > 1 ? Math.max(pieceBytes, stepBytes) : stepBytes;
    while (buffers.length < Math.min(piecesInMemory, pieceCount))
      buffers.push(allocate(tensor, () => takeBuffer(bufferBytes)));
    const begin = async (piece: number): Promise<Uint8Array> => {
      const start = piece * stepBytes;
      const buffer = buffers[piece % buffers.length]!;
      const bytes = buffer.subarray(0, Math.min(stepBytes, totalBytes - start));
      await readExactly(file, tensor.offsetBytes + start, bytes);
      return bytes;
    };
    for (let piece = 0, begun = 0; piece < pieceCount; piece += 1) {
      for (; begun < Math.min(pieceCount, piece + buffers.length); begun += 1) {
        const reading = begin(begun);
        // The error is thrown when this piece is awaited; until then it must not count as unhandled.
        reading.catch(() => undefined);
        pending.push(reading);
      }
      yield await pending.shift()!;
    }
  } finally {
    await Promise.allSettled(pending);
    if (pieceCount > 1) spareBuffers.push(...buffers.map((buffer) => new WeakRef(buffer)));
    await file.handle.close();
  }
}

/** Reused buffers: zeroing new memory costs as much as reading into it. */
let spareBuffers: WeakRef<Uint8Array>[] = [];

function takeBuffer(bytes: number): Uint8Array {
  const kept = spareBuffers.flatMap((spare) => spare.deref() ?? []);
  const at = kept.findIndex(({ byteLength }) => byteLength === bytes);
  const [taken = new Uint8Array(bytes)] = at < 0 ? [] : kept.splice(at, 1);
  spareBuffers = kept.map((buffer) => new WeakRef(buffer));
  return taken;
}

type Values = Float32Array | Int32Array | Uint16Array;

interface Reader<Target extends Values> {
  readonly decode: Decode<Target>;
  readonly allocate: (count: number) => Target;
}

const floats = (tensor: StoredTensor): Reader<Float32Array> => ({
  decode: floatDecoder(tensor),
  allocate: (count) => new Float32Array(count),
});

/** The bits of 16-bit floats. */
const halves: Reader<Uint16Array> = {
  decode(raw, target, start, count) {
    requireLittleEndian();
    target.set(halvesOf(raw, count), start);
  },
  allocate: (count) => new Uint16Array(count),
};

export function readFloat32(tensor: StoredTensor): Promise<Float32Array> {
  return readValues(tensor, floats);
}

export function readIntegers(tensor: StoredTensor): Promise<Int32Array> {
  const allocate = (count: number): Int32Array => new Int32Array(count);
  return readValues(tensor, () => ({ decode: integerDecoder(tensor), allocate }));
}

async function readValues<Target extends Values>(
  tensor: StoredTensor,
  choose: (tensor: StoredTensor) => Reader<Target>,
): Promise<Target> {
  const reader = choose(tensor);
  const target = allocate(tensor, reader.allocate);
  if (tensor.strides === undefined) {
    let start = 0;
    for await (const raw of readRaw(tensor)) {
      const count = raw.byteLength / bytesPerElement(tensor.dtype);
      reader.decode(raw, target, start, count);
      start += count;
    }
  } else if (target.length > 0) {
    await withFile(tensor.file, (file) => gather(file, tensor, target, reader));
  }
  if (tensor.interleavedHeads !== undefined) separateHalves(target, tensor.shape, tensor.interleavedHeads);
  return target;
}

/**
 * A strided tensor is a view of torch, which may span far more of the file than it has elements. It is halved along its
 * widest axis until each part spans at most one piece. A part is read once, and its elements copied to their places.
 */
async function gather<Target extends Values>(
  file: BinaryFile,
  tensor: StoredTensor,
  target: Target,
  reader: Reader<Target>,
): Promise<void> {
  requireWithin(tensor, file);
  const { shape, strides = [], offsetBytes, sizeBytes, dtype } = tensor;
  const itemBytes = bytesPerElement(dtype);
  const capacity = Math.min(defaultPieceBytes, sizeBytes) / itemBytes;
  const raw = new Uint8Array(capacity * itemBytes);
  const values = reader.allocate(capacity);
  const places = shape.map(() => 1); // strides of the target
  for (let axis = shape.length - 2; axis >= 0; axis -= 1) places[axis] = places[axis + 1]! * shape[axis + 1]!;
  const copy = (sizes: readonly number[], axis: number, from: number, to: number): void => {
    const [size, step, place] = [sizes[axis]!, strides[axis]!, places[axis]!];
    for (let index = 0; index < size; index += 1) {
      if (axis < shape.length - 1) copy(sizes, axis + 1, from + index * step, to + index * place);
      else target[to + index] = values[from + index * step]!;
    }
  };
  const read = async (sizes: readonly number[], from: number, to: number): Promise<void> => {
    const extents = sizes.map((size, axis) => (size - 1) * strides[axis]!);
    const span = extents.reduce((sum, extent) => sum + extent, 1);
    if (span <= capacity) {
      await readExactly(file, offsetBytes + from * itemBytes, raw.subarray(0, span * itemBytes));
      reader.decode(raw, values, 0, span);
      copy(sizes, 0, 0, to);
      return;
    }
    const axis = extents.indexOf(Math.max(...extents));
    const half = Math.floor(sizes[axis]! / 2);
    await read(sizes.with(axis, half), from, to);
    await read(
      sizes.with(axis, sizes[axis]! - half),
      from + half * strides[axis]!,
      to + half * places[axis]!,
    );
  };
  await read(shape, 0, 0);
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

/** Whole rows; `values` is valid until the next block is requested. */
export interface RowBlock<Target = Float32Array> {
  readonly values: Target; // [rows, columns]
  readonly firstRow: number;
}

/** The tensor as [rows, columns], in blocks of rows. */
export function readRows(tensor: StoredTensor, pieceBytes?: number): AsyncGenerator<RowBlock> {
  return readBlocks(tensor, floats, pieceBytes);
}

export function readHalfRows(tensor: StoredTensor): AsyncGenerator<RowBlock<Uint16Array>> {
  return readBlocks(tensor, () => halves);
}

async function* readBlocks<Target extends Values>(
  tensor: StoredTensor,
  choose: (tensor: StoredTensor) => Reader<Target>,
  pieceBytes = defaultPieceBytes,
): AsyncGenerator<RowBlock<Target>> {
  const count = countElements(tensor.shape)!;
  if (count === 0) return;
  const columns = tensor.shape.at(-1) ?? 1;
  const step = columns * Math.max(1, Math.floor(pieceBytes / 4 / columns));
  if (!isRowMajor(tensor)) {
    const values = await readValues(tensor, choose);
    for (let start = 0; start < count; start += step)
      yield { values: values.subarray(start, start + step) as Target, firstRow: start / columns };
    return;
  }
  const reader = choose(tensor);
  const itemBytes = bytesPerElement(tensor.dtype);
  const scratch = allocate(tensor, () => reader.allocate(Math.min(step, count)));
  let firstRow = 0;
  for await (const raw of readRaw(tensor, step * itemBytes)) {
    const filled = raw.byteLength / itemBytes;
    reader.decode(raw, scratch, 0, filled);
    yield { values: scratch.subarray(0, filled) as Target, firstRow };
    firstRow += filled / columns;
  }
}

/** Whether the file has the elements in the order of the shape. */
export const isRowMajor = ({ strides, interleavedHeads }: StoredTensor): boolean =>
  strides === undefined && interleavedHeads === undefined;

export function requireWithin({ name, offsetBytes, sizeBytes }: StoredTensor, file: BinaryFile): void {
  if (offsetBytes + sizeBytes <= file.sizeBytes) return;
  throw refuse(
    `tensor ${quote(name)} ends at byte ${offsetBytes + sizeBytes}, but ${file.path} has ${file.sizeBytes} bytes`,
    'The file was changed after it was opened: open the checkpoint again.',
  );
}

function allocate<Result>(tensor: StoredTensor, make: (count: number) => Result): Result {
  const count = countElements(tensor.shape) ?? 0;
  try {
    return make(count);
  } catch (cause) {
    throw refuse(
      `tensor ${quote(tensor.name)} has ${count} elements, more than memory can take at once`,
      'Use a machine with more memory.',
      cause,
    );
  }
}
