/** Small checkpoints for tests, written without any library so that readers are held against the formats themselves. */
export type WritableDType = 'F32' | 'F16' | 'BF16' | 'F64' | 'I64' | 'I32' | 'U8' | 'BOOL';

export interface WritableTensor {
  readonly dtype: WritableDType;
  readonly shape: readonly number[];
  readonly values: readonly number[] | Float32Array;
}

export type WritableTensors = Readonly<Record<string, WritableTensor>>;

export function encodeValues({ dtype, values }: WritableTensor): Uint8Array {
  return new Uint8Array(encode(dtype, values).buffer);
}

function encode(
  dtype: WritableDType,
  values: readonly number[] | Float32Array,
): { readonly buffer: ArrayBuffer } {
  switch (dtype) {
    case 'F32':
      return Float32Array.from(values);
    case 'F64':
      return Float64Array.from(values);
    case 'F16':
      return Uint16Array.from(values, roundToHalf);
    case 'BF16':
      return Uint16Array.from(values, roundToBfloat16);
    case 'I64':
      return BigInt64Array.from(values, BigInt);
    case 'I32':
      return Int32Array.from(values);
    case 'U8':
    case 'BOOL':
      return Uint8Array.from(values);
  }
}

const oneFloat = new Float32Array(1);
const oneFloatBits = new Uint32Array(oneFloat.buffer);

function bitsOf(value: number): number {
  oneFloat[0] = value;
  return oneFloatBits[0]!;
}

/** Round to nearest, ties to even; NaN stays NaN. */
export function roundToBfloat16(value: number): number {
  const bits = bitsOf(value);
  if (Number.isNaN(value)) return (bits >>> 16) | 0x40;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/** Round to nearest, ties to even. */
export function roundToHalf(value: number): number {
  const sign = (bitsOf(value) >>> 16) & 0x8000;
  const magnitude = Math.abs(value);
  if (Number.isNaN(value)) return sign | 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  // The spacing of half floats at this magnitude; below 2^-14 it no longer shrinks.
  const exponent = Math.max(-14, Math.floor(Math.log2(magnitude === 0 ? 1e-30 : magnitude)));
  const steps = roundTiesToEven(magnitude / 2 ** (exponent - 10));
  if (exponent === -14) return sign | steps; // subnormals run on into the first normals
  return sign | (((exponent + 15) << 10) + (steps - 1024));
}

function roundTiesToEven(value: number): number {
  const lower = Math.floor(value);
  const rest = value - lower;
  return rest > 0.5 || (rest === 0.5 && lower % 2 === 1) ? lower + 1 : lower;
}
