/**
 * bfloat16 and float16 as bits, rounded to nearest even. For storage only; sums are in float32.
 */
export type HalfType = 'bfloat16' | 'float16';

export const isHalf = (type: string): type is HalfType => type === 'bfloat16' || type === 'float16';

const single = new Float32Array(1);
const singleBits = new Uint32Array(single.buffer);

/** The value after storing and reading it. It is rounded to float32 first. */
export function roundToHalf(value: number, type: HalfType): number {
  return widen(narrow(value, type), type);
}

export function encodeHalves(values: ArrayLike<number>, type: HalfType): Uint16Array {
  const bits = new Uint16Array(values.length);
  for (let index = 0; index < values.length; index++) bits[index] = narrow(values[index]!, type);
  return bits;
}

export function decodeHalves(bits: Uint16Array, type: HalfType): Float32Array {
  const values = new Float32Array(bits.length);
  for (let index = 0; index < bits.length; index++) values[index] = widen(bits[index]!, type);
  return values;
}

function narrow(value: number, type: HalfType): number {
  single[0] = value;
  const bits = singleBits[0]!;
  const sign = (bits >>> 16) & 0x8000;
  if (Number.isNaN(value)) return sign | (type === 'bfloat16' ? 0x7fc0 : 0x7e00);
  if (type === 'bfloat16') return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
  const magnitude = Math.abs(single[0]);
  if (magnitude >= 65520) return sign | 0x7c00;
  // Below 2^-14 the steps stay as they are (subnormal), so that exponent counts for all smaller ones too.
  const exponent = Math.max(-14, ((bits >>> 23) & 0xff) - 127);
  const steps = roundToEven(magnitude / 2 ** (exponent - 10));
  // Of a normal number the leading one is among the steps; a carry into the exponent is right as it is.
  return sign | (((exponent + 14) << 10) + steps);
}

function roundToEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
}

function widen(bits: number, type: HalfType): number {
  singleBits[0] = type === 'bfloat16' ? bits << 16 : widenFloat16(bits);
  return single[0]!;
}

/** Float32 bits: 1 sign, 5 exponent (bias 15), 10 fraction bits to 1, 8 (bias 127), 23. Keeps NaN payloads. */
function widenFloat16(half: number): number {
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

let table: Uint32Array<ArrayBuffer> | undefined;

/** [65536] The float32 bits of every float16. */
export function float16Table(): Uint32Array<ArrayBuffer> {
  table ??= Uint32Array.from({ length: 65_536 }, (_, half) => widenFloat16(half));
  return table;
}
