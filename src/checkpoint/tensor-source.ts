/** Tensors to write; their bytes are produced on demand. */
import { encodeHalves, type HalfType } from '../core/half-floats.js';
import { requireLittleEndian } from './element-decoding.js';
import { isRowMajor, readFloat32, readIntegers, readRaw } from './read-tensor.js';
import type { PlainDType, StoredTensor } from './stored-tensor.js';
import { bytesOf, isBlockDType, isFloatDType, quote, refuse } from './stored-tensor.js';

export interface TensorSource {
  readonly name: string;
  readonly dtype: PlainDType;
  readonly shape: readonly number[];
  /** All elements in order, little-endian. A piece is valid until the next one is requested. */
  readonly read: () => AsyncIterable<Uint8Array>;
}

export type WrittenFloat = 'F32' | 'F16' | 'BF16';

const halfTypes: Readonly<Record<'F16' | 'BF16', HalfType>> = { F16: 'float16', BF16: 'bfloat16' };
const pieceElements = 1024 * 1024;

/** `make` is called when the tensor is written: one in memory at a time. */
export function floatSource(
  { name, shape, dtype }: Pick<TensorSource, 'name' | 'shape'> & { readonly dtype: WrittenFloat },
  make: () => Promise<Float32Array> | Float32Array,
): TensorSource {
  return {
    name,
    dtype,
    shape,
    async *read() {
      requireLittleEndian();
      const values = await make();
      for (let start = 0; start < values.length; start += pieceElements) {
        const piece = values.subarray(start, start + pieceElements);
        requireFinite(name, piece, dtype);
        yield bytesOf(dtype === 'F32' ? piece : encodeHalves(piece, halfTypes[dtype]));
      }
    },
  };
}

export function integerSource(name: string, dtype: 'I64' | 'BOOL', values: Int32Array): TensorSource {
  return {
    name,
    dtype,
    shape: [values.length],
    // oxlint-disable-next-line typescript/require-await
    async *read() {
      requireLittleEndian();
      yield bytesOf(
        dtype === 'I64'
          ? BigInt64Array.from(values, BigInt)
          : Uint8Array.from(values, (value) => +(value !== 0)),
      );
    },
  };
}

/** Strided tensors become contiguous, quantized ones float32. */
export function storedSource(tensor: StoredTensor): TensorSource {
  const { name, shape, dtype } = tensor;
  if (isRowMajor(tensor) && !isBlockDType(dtype)) return { name, dtype, shape, read: () => readRaw(tensor) };
  if (isFloatDType(dtype)) {
    const type = dtype === 'F16' || dtype === 'BF16' ? dtype : 'F32';
    return floatSource({ name, shape, dtype: type }, () => readFloat32(tensor));
  }
  const written = dtype === 'BOOL' ? 'BOOL' : 'I64';
  const read = async function* (): AsyncGenerator<Uint8Array> {
    yield* integerSource(name, written, await readIntegers(tensor)).read();
  };
  return { name, dtype: written, shape, read };
}

/** Larger values overflow float16. */
const beyondHalf = 65520;

/** A checkpoint with NaN must never be written. */
function requireFinite(name: string, values: Float32Array, dtype: WrittenFloat): void {
  const largest = dtype === 'F16' ? beyondHalf : Infinity;
  const wrong = values.find((value) => !(Math.abs(value) < largest));
  if (wrong === undefined) return;
  throw refuse(
    `tensor ${quote(name)} holds ${wrong}, which ${dtype} cannot keep`,
    Number.isFinite(wrong) ? 'Write it as float32.' : 'Go back to weights from before they were lost.',
  );
}
