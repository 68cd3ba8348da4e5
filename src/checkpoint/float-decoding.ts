/**
 * Float formats to float32 by moving bits, so that NaN payloads, infinities and subnormals arrive as they are. float16
 * goes through a table of all 65536 values; bfloat16 is the upper half of a float32.
 */
import type { StoredDType } from './stored-tensor.js';

export type FloatDType = Extract<StoredDType, 'F32' | 'F16' | 'BF16' | 'F64'>;

let halfTable: Uint32Array | undefined;

/** Decodes `count` elements from the start of `raw` (8-byte aligned) into `target` from `targetStart` on. */
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
      const table = (halfTable ??= buildHalfTable());
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

function buildHalfTable(): Uint32Array {
  const table = new Uint32Array(65536);
  for (let half = 0; half < 65536; half += 1) table[half] = widenHalf(half);
  return table;
}

/** 1 sign, 5 exponent (bias 15), 10 fraction bits to 1, 8 (bias 127), 23. */
function widenHalf(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >>> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0x1f) return sign | 0x7f800000 | (fraction << 13);
  if (exponent !== 0) return sign | ((exponent + 112) << 23) | (fraction << 13);
  if (fraction === 0) return sign;
  // Subnormal: shift the leading one out of the fraction; each shift lowers the exponent.
  const shift = Math.clz32(fraction) - 21;
  return sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13);
}
