/** Decodes raw bytes of each dtype to float32 or int32. */
import { endianness } from 'node:os';
import { MistletoeError } from '../core/errors.js';
import { float16Table } from '../core/half-floats.js';
import { decodeBlocks } from './gguf/block-decoding.js';
import type { StoredDType, StoredTensor } from './stored-tensor.js';
import { isBlockDType, isFloatDType, quote, refuse } from './stored-tensor.js';

export type FloatDType = Extract<StoredDType, 'F32' | 'F16' | 'BF16' | 'F64'>;

/** Decodes `count` elements to `target[start...]`. `raw` is 8-byte aligned. */
export type Decode<Target> = (raw: Uint8Array, target: Target, start: number, count: number) => void;

const bitsOf = (target: Float32Array, start: number, count: number): Uint32Array =>
  new Uint32Array(target.buffer, target.byteOffset + start * 4, count);

/** Move bits, so NaN payloads, infinities and subnormals are preserved. */
export const floatDecoders: Readonly<Record<FloatDType, Decode<Float32Array>>> = {
  F16(raw, target, start, count) {
    const [halves, bits, table] = [halvesOf(raw, count), bitsOf(target, start, count), float16Table()];
    for (let index = 0; index < count; index += 1) bits[index] = table[halves[index]!]!;
  },
  BF16(raw, target, start, count) {
    const [halves, bits] = [halvesOf(raw, count), bitsOf(target, start, count)];
    for (let index = 0; index < count; index += 1) bits[index] = halves[index]! << 16; // the upper half of a float32
  },
  F32(raw, target, start, count) {
    bitsOf(target, start, count).set(new Uint32Array(raw.buffer, raw.byteOffset, count));
  },
  F64(raw, target, start, count) {
    target.set(new Float64Array(raw.buffer, raw.byteOffset, count), start);
  },
};

export const halvesOf = (raw: Uint8Array, count: number): Uint16Array =>
  new Uint16Array(raw.buffer, raw.byteOffset, count);

export function floatDecoder({ name, dtype }: StoredTensor): Decode<Float32Array> {
  requireLittleEndian();
  if (isBlockDType(dtype)) {
    return (raw, target, start, count) => {
      decodeBlocks(raw, dtype, target, start, count);
    };
  }
  if (isFloatDType(dtype)) return floatDecoders[dtype as FloatDType];
  throw refuse(
    `tensor ${quote(name)} has dtype ${dtype}, expected a float type (F32, F16, BF16, F64)`,
    'Check that this file holds the weights of the model you mean.',
  );
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
