/** Decodes raw bytes of each dtype to float32 or int32. */
import { endianness } from 'node:os';
import { MistletoeError } from '../core/errors.js';
import { float16Table } from '../core/half-floats.js';
import { decodeBlocks } from './gguf/block-decoding.js';
import type { StoredDType, StoredTensor } from './stored-tensor.js';
import { isBlockDType, isFloatDType, quote, refuse } from './stored-tensor.js';

/**
 * Moves bits, so NaN payloads, infinities and subnormals are preserved. float16 uses a table of all values; bfloat16
 * is the upper half of a float32.
 */
export type FloatDType = Extract<StoredDType, 'F32' | 'F16' | 'BF16' | 'F64'>;

/** `raw` is 8-byte aligned. */
export function decodeFloats(
  raw: Uint8Array,
  dtype: FloatDType,
  target: Float32Array,
  targetStart: number,
  count: number,
): void {
  const bits = new Uint32Array(target.buffer, target.byteOffset + targetStart * 4, count);
  switch (dtype) {
    case 'F16': {
      const halves = new Uint16Array(raw.buffer, raw.byteOffset, count);
      const table = float16Table();
      for (let index = 0; index < count; index += 1) bits[index] = table[halves[index]!]!;
      return;
    }
    case 'BF16': {
      const halves = new Uint16Array(raw.buffer, raw.byteOffset, count);
      for (let index = 0; index < count; index += 1) bits[index] = halves[index]! << 16;
      return;
    }
    case 'F32':
      bits.set(new Uint32Array(raw.buffer, raw.byteOffset, count));
      return;
    case 'F64':
      target.set(new Float64Array(raw.buffer, raw.byteOffset, count), targetStart);
      return;
  }
}

/** `raw` is 8-byte aligned. */
export type Decode<Target> = (raw: Uint8Array, target: Target, start: number, count: number) => void;

export function floatDecoder(tensor: StoredTensor): Decode<Float32Array> {
  requireLittleEndian();
  if (!isFloatDType(tensor.dtype)) {
    throw refuse(
      `tensor ${quote(tensor.name)} has dtype ${tensor.dtype}, expected a float type (F32, F16, BF16, F64)`,
      'Check that this file holds the weights of the model you mean.',
    );
  }
  const { dtype } = tensor;
  if (isBlockDType(dtype)) {
    return (raw, target, start, count) => {
      decodeBlocks(raw, dtype, target, start, count);
    };
  }
  return (raw, target, start, count) => {
    decodeFloats(raw, dtype as FloatDType, target, start, count);
  };
}

export function integerDecoder(tensor: StoredTensor): Decode<Int32Array> {
  requireLittleEndian();
  switch (tensor.dtype) {
    case 'I64':
      return (raw, target, start, count) => {
        // Faster than BigInt: the value fits if the upper half repeats the lower one's sign.
        const halves = new Int32Array(raw.buffer, raw.byteOffset, count * 2);
        for (let index = 0; index < count; index += 1) {
          const lower = halves[2 * index]!;
          if (halves[2 * index + 1] !== lower >> 31) {
            const value = new BigInt64Array(raw.buffer, raw.byteOffset, count)[index]!;
            throw refuse(
              `tensor ${quote(tensor.name)} holds ${value.toString()}, which does not fit 32 bits`,
              'Token ids and offsets are far smaller: check that the file is whole.',
            );
          }
          target[start + index] = lower;
        }
      };
    case 'I32':
      return (raw, target, start, count) => {
        target.set(new Int32Array(raw.buffer, raw.byteOffset, count), start);
      };
    case 'U8':
    case 'BOOL':
      return (raw, target, start, count) => {
        target.set(raw.subarray(0, count), start);
      };
    default:
      throw refuse(
        `tensor ${quote(tensor.name)} has dtype ${tensor.dtype}, expected an integer or boolean type (I64, I32, U8, BOOL)`,
        'Check that this file holds the weights of the model you mean.',
      );
  }
}

export function requireLittleEndian(): void {
  if (endianness() !== 'LE') {
    throw new MistletoeError('runtime', 'this machine is big-endian, expected a little-endian one', {
      hint: 'Run on x86-64 or ARM64.',
    });
  }
}
