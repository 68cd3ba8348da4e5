/**
 * Quantized blocks of ggml as float32. Scales are float16 with small integer factors, so every product here is exact and
 * each element is rounded once: the results are those of ggml's reference code, bit for bit.
 */
import { float16Table } from '../../core/half-floats.js';
import { blockSizeOf, type BlockDType } from '../stored-tensor.js';

/** One block from `bytes[at...]` to `target[to...]`. */
type DecodeBlock = (bytes: Uint8Array, at: number, target: Float32Array, to: number) => void;

const decoders: Readonly<Record<BlockDType, DecodeBlock>> = {
  Q4_0: pairedBlock({ hasMinimum: false, hasFifthBit: false }),
  Q4_1: pairedBlock({ hasMinimum: true, hasFifthBit: false }),
  Q5_0: pairedBlock({ hasMinimum: false, hasFifthBit: true }),
  Q5_1: pairedBlock({ hasMinimum: true, hasFifthBit: true }),
  Q8_0: decodeQ8,
  Q2_K: decodeQ2K,
  Q3_K: decodeQ3K,
  Q4_K: groupedBlock({ hasFifthBit: false }),
  Q5_K: groupedBlock({ hasFifthBit: true }),
  Q6_K: decodeQ6K,
};

/** `count` elements, whole blocks, from the start of `raw` to `target[start...]`. */
export function decodeBlocks(
  raw: Uint8Array,
  dtype: BlockDType,
  target: Float32Array,
  start: number,
  count: number,
): void {
  const { elements, bytes } = blockSizeOf(dtype);
  const decode = decoders[dtype];
  for (let block = 0; block * elements < count; block += 1)
    decode(raw, block * bytes, target, start + block * elements);
}

let halves: Float32Array | undefined;

function half(bytes: Uint8Array, at: number): number {
  halves ??= new Float32Array(float16Table().buffer);
  return halves[bytes[at]! | (bytes[at + 1]! << 8)]!;
}

function int8(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 24) >> 24;
}

interface PairedFormat {
  readonly hasMinimum: boolean;
  readonly hasFifthBit: boolean;
}

/**
 * 32 elements: scale, minimum if any, fifth bits if any, then 16 bytes. Byte i holds the low four bits of element i and,
 * above them, of element i + 16. Without a minimum the values are centered on zero.
 */
function pairedBlock({ hasMinimum, hasFifthBit }: PairedFormat): DecodeBlock {
  const center = hasMinimum ? 0 : hasFifthBit ? 16 : 8;
  const fifthAt = hasMinimum ? 4 : 2;
  const pairsAt = fifthAt + (hasFifthBit ? 4 : 0);
  return (bytes, at, target, to) => {
    const scale = half(bytes, at);
    const minimum = hasMinimum ? half(bytes, at + 2) : -0; // adding -0 keeps the sign of a zero
    for (let index = 0; index < 16; index += 1) {
      const pair = bytes[at + pairsAt + index]!;
      let low = pair & 15;
      let high = pair >> 4;
      if (hasFifthBit) {
        const bit = index & 7;
        low |= ((bytes[at + fifthAt + (index >> 3)]! >> bit) & 1) << 4;
        high |= ((bytes[at + fifthAt + 2 + (index >> 3)]! >> bit) & 1) << 4;
      }
      target[to + index] = scale * (low - center) + minimum;
      target[to + 16 + index] = scale * (high - center) + minimum;
    }
  };
}

/** 32 elements: scale, then one signed byte each. */
function decodeQ8(bytes: Uint8Array, at: number, target: Float32Array, to: number): void {
  const scale = half(bytes, at);
  for (let index = 0; index < 32; index += 1) target[to + index] = scale * int8(bytes, at + 2 + index);
}

/**
 * 256 elements in 16 groups of 16: a byte per group with a scale and a minimum of four bits each, 64 bytes with two bits
 * per element, then the scale of the scales and that of the minimums. For the layout of the two bits see `twoBitsAt`.
 */
function decodeQ2K(bytes: Uint8Array, at: number, target: Float32Array, to: number): void {
  const scale = half(bytes, at + 80);
  const minimumScale = half(bytes, at + 82);
  for (let group = 0; group < 16; group += 1) {
    const packed = bytes[at + group]!;
    const groupScale = scale * (packed & 15);
    const minimum = minimumScale * (packed >> 4);
    for (let index = 0; index < 16; index += 1)
      target[to + 16 * group + index] = groupScale * twoBitsAt(bytes, at + 16, group, index) - minimum;
  }
}

/** Each half of 128 elements has 32 bytes; byte l holds elements l, l + 32, l + 64 and l + 96, lowest bits first. */
function twoBitsAt(bytes: Uint8Array, at: number, group: number, index: number): number {
  const byte = bytes[at + 32 * (group >> 3) + 16 * (group & 1) + index]!;
  return (byte >> (2 * ((group >> 1) & 3))) & 3;
}

/**
 * 256 elements in 16 groups of 16: 32 bytes with the third bits, 64 bytes with the lower two bits, 12 bytes with signed
 * scales of six bits, then the scale of the scales. Bit (group / 2) of byte l belongs to element 32 (group / 2) + l.
 */
function decodeQ3K(bytes: Uint8Array, at: number, target: Float32Array, to: number): void {
  const scale = half(bytes, at + 108);
  const scalesAt = at + 96;
  for (let group = 0; group < 16; group += 1) {
    const low = (bytes[scalesAt + (group & 7)]! >> (group < 8 ? 0 : 4)) & 15;
    const high = (bytes[scalesAt + 8 + (group & 3)]! >> (2 * (group >> 2))) & 3;
    const groupScale = scale * ((low | (high << 4)) - 32);
    for (let index = 0; index < 16; index += 1) {
      const third = (bytes[at + 16 * (group & 1) + index]! >> (group >> 1)) & 1;
      const value = twoBitsAt(bytes, at + 32, group, index) + 4 * third - 4;
      target[to + 16 * group + index] = groupScale * value;
    }
  }
}

/**
 * 256 elements in 8 groups of 32: the scale of the scales, that of the minimums, 12 bytes with a scale and a minimum of
 * six bits for each group, 32 bytes with the fifth bits if any, then 128 bytes. Two groups share 32 bytes, four bits each.
 */
function groupedBlock({ hasFifthBit }: Pick<PairedFormat, 'hasFifthBit'>): DecodeBlock {
  return (bytes, at, target, to) => {
    const scale = half(bytes, at);
    const minimumScale = half(bytes, at + 2);
    const fifthAt = at + 16;
    const pairsAt = fifthAt + (hasFifthBit ? 32 : 0);
    for (let group = 0; group < 8; group += 1) {
      const groupScale = scale * sixBitScale(bytes, at + 4, group);
      const minimum = minimumScale * sixBitMinimum(bytes, at + 4, group);
      const shift = 4 * (group & 1);
      for (let index = 0; index < 32; index += 1) {
        let value = (bytes[pairsAt + 32 * (group >> 1) + index]! >> shift) & 15;
        if (hasFifthBit) value |= ((bytes[fifthAt + index]! >> group) & 1) << 4;
        target[to + 32 * group + index] = groupScale * value - minimum;
      }
    }
  };
}

/** The first four groups have their six bits in one byte; the others have four there and two above those of the first. */
function sixBitScale(bytes: Uint8Array, at: number, group: number): number {
  if (group < 4) return bytes[at + group]! & 63;
  return (bytes[at + group + 4]! & 15) | ((bytes[at + group - 4]! >> 6) << 4);
}

function sixBitMinimum(bytes: Uint8Array, at: number, group: number): number {
  if (group < 4) return bytes[at + group + 4]! & 63;
  return (bytes[at + group + 4]! >> 4) | ((bytes[at + group]! >> 6) << 4);
}

/**
 * 256 elements in 16 groups of 16: 128 bytes with the lower four bits, 64 bytes with the upper two, a signed byte per
 * group as its scale, then the scale of the scales. Each half of 128 elements has four quarters of 32: quarters 0 and 2
 * share 32 bytes of lower bits, 1 and 3 the next 32; the upper bits of all four share 32 bytes.
 */
function decodeQ6K(bytes: Uint8Array, at: number, target: Float32Array, to: number): void {
  const scale = half(bytes, at + 208);
  for (let group = 0; group < 16; group += 1) {
    const groupScale = scale * int8(bytes, at + 192 + group);
    const second = group >> 3;
    const quarter = (group >> 1) & 3;
    const lowAt = at + 64 * second + 32 * (quarter & 1) + 16 * (group & 1);
    const highAt = at + 128 + 32 * second + 16 * (group & 1);
    for (let index = 0; index < 16; index += 1) {
      const low = (bytes[lowAt + index]! >> (4 * (quarter >> 1))) & 15;
      const high = (bytes[highAt + index]! >> (2 * quarter)) & 3;
      target[to + 16 * group + index] = groupScale * ((low | (high << 4)) - 32);
    }
  }
}
