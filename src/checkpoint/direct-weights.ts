/**
 * Weights read directly from the checkpoint's files, for runtimes that convert them. Nothing is written to disk, and
 * the host holds a few pieces at a time, or one strided tensor. NaN and infinite weights are found by the model's check
 * of its logits.
 */
import type { HalfType } from '../core/half-floats.js';
import type { CheckpointWeights, DirectPart, DirectWeight } from '../runtime/weights.js';
import { withFile } from './binary-file.js';
import { identifyFile, requireSameFiles } from './cache/content-hash.js';
import { requireLittleEndian } from './element-decoding.js';
import { isRowMajor, readRaw, readRows, requireWithin } from './read-tensor.js';
import { bytesOf, type StoredDType, type StoredTensor } from './stored-tensor.js';
import type { ResolvedPart, ResolvedRecipe } from './weight-recipe.js';

const directTypes: Partial<Record<StoredDType, 'float32' | HalfType>> = {
  F32: 'float32',
  F16: 'float16',
  BF16: 'bfloat16',
};

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
  const direct = isRowMajor(stored) ? directTypes[stored.dtype] : undefined;
  return {
    dtype: direct ?? 'float32',
    shape: stored.shape,
    isTransposed: transpose !== isStoredTransposed,
    async *read() {
      yield* direct === undefined ? readDecoded(stored, pieceBytes) : readRaw(stored, pieceBytes);
      // After reading: bytes read before a change are as unusable as those read after it.
      await requireSameFiles([stored.file], [identity]);
    },
  };
}

/** float32 values of strided and interleaved tensors, and of types that no device reads. */
async function* readDecoded(tensor: StoredTensor, pieceBytes: number): AsyncGenerator<Uint8Array> {
  for await (const { values } of readRows(tensor, pieceBytes)) yield bytesOf(values);
}
