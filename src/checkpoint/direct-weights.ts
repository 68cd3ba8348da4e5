/**
 * Weights read directly from the checkpoint's files, for runtimes that convert them. Nothing is written to disk, and
 * the host holds a few pieces at a time. NaN and infinite weights are found by the model's check of its logits.
 */
import type { HalfType } from '../core/half-floats.js';
import type { CheckpointWeights, DirectPart, DirectWeight } from '../runtime/weights.js';
import { openFile, readExactly, withFile } from './binary-file.js';
import { identifyFile, requireSameFiles } from './cache/content-hash.js';
import { requireLittleEndian } from './element-decoding.js';
import { readFloat32, requireWithin } from './read-tensor.js';
import { bytesPerElement, countElements, type StoredDType, type StoredTensor } from './stored-tensor.js';
import type { ResolvedPart, ResolvedRecipe } from './weight-recipe.js';

const directTypes: Partial<Record<StoredDType, 'float32' | HalfType>> = {
  F32: 'float32',
  F16: 'float16',
  BF16: 'bfloat16',
};

/** One piece is used while the others are read. */
const piecesInMemory = 4;

/** `pieceBytes`: max bytes of a piece, unless one row is larger. */
export async function createDirectWeights(
  recipes: readonly ResolvedRecipe[],
  pieceBytes = 8 * 1024 * 1024,
): Promise<CheckpointWeights> {
  requireLittleEndian();
  const read = recipes.flatMap(({ parts }) => parts.map(({ tensor }) => tensor));
  const identities = new Map<string, string>();
  for (const path of new Set(read.map(({ file }) => file))) {
    identities.set(path, await identifyFile(path));
    await withFile(path, (file) => {
      for (const tensor of read) if (tensor.file === path) requireWithin(tensor, file);
      return Promise.resolve();
    });
  }
  const describe = (part: ResolvedPart): DirectPart =>
    describePart(part, identities.get(part.tensor.file)!, pieceBytes);
  const tensors = new Map<string, DirectWeight>();
  for (const { name, shape, parts } of recipes) tensors.set(name, { shape, parts: parts.map(describe) });
  return { kind: 'checkpoint', tensors };
}

function describePart({ tensor, transpose }: ResolvedPart, identity: string, pieceBytes: number): DirectPart {
  const { shape, strides } = tensor;
  // A matrix that torch stored transposed: the file holds the contiguous transpose.
  const isStoredTransposed = shape.length === 2 && strides?.[0] === 1 && strides[1] === shape[0];
  const stored = isStoredTransposed ? { ...tensor, shape: shape.toReversed(), strides: undefined } : tensor;
  const isTransposed = transpose !== isStoredTransposed;
  const isRowMajor = stored.strides === undefined && stored.interleavedHeads === undefined;
  const direct = isRowMajor ? directTypes[stored.dtype] : undefined;
  const pieces = direct === undefined ? readDecoded : readRaw;
  return {
    dtype: direct ?? 'float32',
    shape: stored.shape,
    isTransposed,
    async *read() {
      yield* pieces(stored, pieceBytes);
      // After reading: bytes read before a change are as unusable as those read after it.
      await requireSameFiles([stored.file], [identity]);
    },
  };
}

async function* readRaw(tensor: StoredTensor, pieceBytes: number): AsyncGenerator<Uint8Array> {
  const totalBytes = countElements(tensor.shape)! * bytesPerElement(tensor.dtype);
  if (totalBytes === 0) return;
  const rowBytes = (tensor.shape.at(-1) ?? 1) * bytesPerElement(tensor.dtype);
  const stepBytes = Math.min(totalBytes, rowBytes * Math.max(1, Math.floor(pieceBytes / rowBytes)));
  const pieceCount = Math.ceil(totalBytes / stepBytes);
  const file = await openFile(tensor.file);
  const pending: Promise<Uint8Array>[] = [];
  const bufferBytes = pieceCount > 1 ? Math.max(pieceBytes, stepBytes) : stepBytes;
  const buffers = Array.from({ length: Math.min(piecesInMemory, pieceCount) }, () => takeBuffer(bufferBytes));
  try {
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

/** float32 values of strided and interleaved tensors, and of types that no device reads. */
async function* readDecoded(tensor: StoredTensor, pieceBytes: number): AsyncGenerator<Uint8Array> {
  if (countElements(tensor.shape) === 0) return;
  const [blocks, ...inner] = tensor.shape.length > 1 ? tensor.shape : [1, ...tensor.shape];
  const blockElements = countElements(inner)!;
  // Whole heads, because their rows are reordered.
  const unit = tensor.shape.length > 1 ? blocks! / (tensor.interleavedHeads ?? blocks!) : 1;
  const step = unit * Math.max(1, Math.floor(pieceBytes / 4 / blockElements / unit));
  for (let first = 0; first < blocks!; first += step) {
    const values = await readFloat32(selectBlocks(tensor, first, Math.min(step, blocks! - first)));
    yield new Uint8Array(values.buffer);
  }
}

function selectBlocks(tensor: StoredTensor, first: number, count: number): StoredTensor {
  if (tensor.shape.length < 2) return tensor;
  const shape = [count, ...tensor.shape.slice(1)];
  const { strides } = tensor;
  const span =
    strides === undefined
      ? countElements(shape)!
      : shape.reduce((sum, size, axis) => sum + (size - 1) * strides[axis]!, 1);
  const blockStep = strides?.[0] ?? countElements(shape.slice(1))!;
  const itemBytes = bytesPerElement(tensor.dtype);
  const heads = tensor.interleavedHeads;
  return {
    ...tensor,
    shape,
    offsetBytes: tensor.offsetBytes + first * blockStep * itemBytes,
    sizeBytes: span * itemBytes,
    ...(heads === undefined ? {} : { interleavedHeads: (heads * count) / tensor.shape[0]! }),
  };
}
