/** From raw bytes of each dtype to the float32 and int32 the rest of the program works with. */
import { endianness } from 'node:os';
import { MistletoeError } from '../core/errors.js';
import type { FloatDType } from './float-decoding.js';
import { decodeFloats } from './float-decoding.js';
import type { StoredTensor } from './stored-tensor.js';
import { isFloatDType, quote, refuse } from './stored-tensor.js';

/** `count` elements from the start of `raw` (8-byte aligned) to `target[start...]`. */
export type Decode<Target> = (raw: Uint8Array, target: Target, start: number, count: number) => void;

export function floatDecoder(tensor: StoredTensor): Decode<Float32Array> {
  requireLittleEndian();
  if (!isFloatDType(tensor.dtype)) {
    throw refuse(
      `tensor ${quote(tensor.name)} has dtype ${tensor.dtype}, expected a float type (F32, F16, BF16, F64)`,
      'Check that this file holds the weights of the model you mean.',
    );
  }
  const dtype = tensor.dtype as FloatDType;
  return (raw, target, start, count) => {
    decodeFloats(raw, dtype, target, start, count);
  };
}

/** The bits of float16 and bfloat16, as they are stored. */
export function halfDecoder(): Decode<Uint16Array> {
  requireLittleEndian();
  return (raw, target, start, count) => {
    target.set(new Uint16Array(raw.buffer, raw.byteOffset, count), start);
  };
}

export function integerDecoder(tensor: StoredTensor): Decode<Int32Array> {
  requireLittleEndian();
  switch (tensor.dtype) {
    case 'I64':
      return (raw, target, start, count) => {
        // Two halves are faster than BigInt: the value fits if the upper half only repeats the lower one's sign.
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
