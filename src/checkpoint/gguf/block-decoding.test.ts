/**
 * Every quantized type against a second decoder in double precision. It walks through a block in the order in which ggml
 * writes the elements, while the decoder computes the place of each element.
 */
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import type { BlockDType } from '../stored-tensor.js';
import { blockSizeOf } from '../stored-tensor.js';
import { decodeBlocks } from './block-decoding.js';

/** Bytes in order: 1 sign bit, 5 exponent bits, 10 fraction bits. */
function halfOf(low: number, high: number): number {
  const bits = low + 256 * high;
  const exponent = Math.floor(bits / 1024) % 32;
  const fraction = bits % 1024;
  const magnitude = exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15);
  return bits >= 32768 ? -magnitude : magnitude;
}

const bitsOf = (bytes: readonly number[]): number[] =>
  bytes.flatMap((byte) => Array.from({ length: 8 }, (_, bit) => Math.floor(byte / 2 ** bit) % 2));
const lowNibble = (byte: number): number => byte % 16;
const highNibble = (byte: number): number => Math.floor(byte / 16);
const signed = (byte: number): number => (byte > 127 ? byte - 256 : byte);

/** Takes bytes from the front of a block. */
function reader(block: readonly number[]): {
  readonly take: (count: number) => number[];
  readonly half: () => number;
} {
  const rest = [...block];
  const take = (count: number): number[] => rest.splice(0, count);
  return {
    take,
    half: () => {
      const [low, high] = take(2);
      return halfOf(low!, high!);
    },
  };
}

type Reference = (block: readonly number[]) => number[];

function simple(bits: 4 | 5, hasMinimum: boolean): Reference {
  return (block) => {
    const { take, half } = reader(block);
    const scale = half();
    const minimum = hasMinimum ? half() : -0;
    const fifth = bits === 5 ? bitsOf(take(4)) : new Array<number>(32).fill(0);
    const bytes = take(16);
    const nibbles = [...bytes.map(lowNibble), ...bytes.map(highNibble)];
    const center = hasMinimum ? 0 : 2 ** (bits - 1);
    return nibbles.map((nibble, index) => (nibble + 16 * fifth[index]! - center) * scale + minimum);
  };
}

/** Scales and minimums of Q4_K and Q5_K: 8 of six bits each in 12 bytes. */
function sixBits(bytes: readonly number[]): { scales: number[]; minimums: number[] } {
  const scales = [];
  const minimums = [];
  for (let index = 0; index < 4; index++) {
    scales.push(bytes[index]! % 64);
    minimums.push(bytes[4 + index]! % 64);
  }
  for (let index = 0; index < 4; index++) {
    scales.push(lowNibble(bytes[8 + index]!) + 16 * Math.floor(bytes[index]! / 64));
    minimums.push(highNibble(bytes[8 + index]!) + 16 * Math.floor(bytes[4 + index]! / 64));
  }
  return { scales, minimums };
}

function grouped(hasFifth: boolean): Reference {
  return (block) => {
    const { take, half } = reader(block);
    const [scale, minimumScale] = [half(), half()];
    const { scales, minimums } = sixBits(take(12));
    const fifth = hasFifth ? take(32) : new Array<number>(32).fill(0);
    const values: number[] = [];
    for (let group = 0; group < 8; group += 2) {
      const bytes = take(32);
      for (const [which, nibble] of [lowNibble, highNibble].entries()) {
        bytes.forEach((byte, index) => {
          const upper = Math.floor(fifth[index]! / 2 ** (group + which)) % 2;
          const value = nibble(byte) + 16 * upper;
          values.push(scale * scales[group + which]! * value - minimumScale * minimums[group + which]!);
        });
      }
    }
    return values;
  };
}

const references: Readonly<Record<BlockDType, Reference>> = {
  Q4_0: simple(4, false),
  Q4_1: simple(4, true),
  Q5_0: simple(5, false),
  Q5_1: simple(5, true),
  Q8_0(block) {
    const { take, half } = reader(block);
    const scale = half();
    return take(32).map((byte) => scale * signed(byte));
  },
  Q4_K: grouped(false),
  Q5_K: grouped(true),
  Q2_K(block) {
    const { take, half } = reader(block);
    const scales = take(16);
    const bytes = take(64);
    const [scale, minimumScale] = [half(), half()];
    const values: number[] = [];
    for (const first of [0, 32]) {
      for (const shift of [1, 4, 16, 64]) {
        for (const part of [0, 16]) {
          const packed = scales.shift()!;
          for (let index = 0; index < 16; index++) {
            const value = Math.floor(bytes[first + part + index]! / shift) % 4;
            values.push(scale * lowNibble(packed) * value - minimumScale * highNibble(packed));
          }
        }
      }
    }
    return values;
  },
  Q3_K(block) {
    const { take, half } = reader(block);
    const masks = take(32);
    const bytes = take(64);
    const packed = take(12);
    const scale = half();
    const scales = Array.from({ length: 16 }, (_, index) => {
      const low = index < 8 ? lowNibble(packed[index]!) : highNibble(packed[index - 8]!);
      const high = Math.floor(packed[8 + (index % 4)]! / 4 ** Math.floor(index / 4)) % 4;
      return low + 16 * high - 32;
    });
    const values: number[] = [];
    let mask = 1;
    for (const first of [0, 32]) {
      for (const shift of [1, 4, 16, 64]) {
        for (const part of [0, 16]) {
          const groupScale = scale * scales.shift()!;
          for (let index = 0; index < 16; index++) {
            const low = Math.floor(bytes[first + part + index]! / shift) % 4;
            const isSet = Math.floor(masks[part + index]! / mask) % 2 === 1;
            values.push(groupScale * (isSet ? low : low - 4));
          }
        }
        mask *= 2;
      }
    }
    return values;
  },
  Q6_K(block) {
    const { take, half } = reader(block);
    const low = take(128);
    const high = take(64);
    const scales = take(16).map(signed);
    const scale = half();
    const values = new Array<number>(256);
    for (const second of [0, 1]) {
      for (let index = 0; index < 32; index++) {
        const first = low[64 * second + index]!;
        const next = low[64 * second + 32 + index]!;
        const upper = high[32 * second + index]!;
        const four = [lowNibble(first), lowNibble(next), highNibble(first), highNibble(next)];
        four.forEach((nibble, quarter) => {
          const value = nibble + 16 * (Math.floor(upper / 4 ** quarter) % 4) - 32;
          const groupScale = scales[8 * second + 2 * quarter + Math.floor(index / 16)]!;
          values[128 * second + 32 * quarter + index] = scale * groupScale * value;
        });
      }
    }
    return values;
  },
};

/** Where a block has float16 scales. */
const halvesAt: Readonly<Record<BlockDType, readonly number[]>> = {
  ...{ Q4_0: [0], Q4_1: [0, 2], Q5_0: [0], Q5_1: [0, 2], Q8_0: [0] },
  ...{ Q2_K: [80, 82], Q3_K: [108], Q4_K: [0, 2], Q5_K: [0, 2], Q6_K: [208] },
};

describe.each(Object.keys(references) as BlockDType[])('%s', (dtype) => {
  const { elements, bytes } = blockSizeOf(dtype);
  const random = createRandom(1, 'blocks', dtype);
  const blocks = Array.from({ length: 40 }, () => {
    const block = Array.from({ length: bytes }, () => random.nextInteger(256));
    for (const at of halvesAt[dtype]) if ((block[at + 1]! & 0x7c) === 0x7c) block[at + 1]! -= 4; // finite
    return block;
  });
  const expected = blocks.flatMap((block) => references[dtype](block).map(Math.fround));

  it('has the values of the reference', () => {
    const target = new Float32Array(8 + expected.length);
    decodeBlocks(Uint8Array.from(blocks.flat()), dtype, target, 8, expected.length);
    expect(expected).toHaveLength(40 * elements);
    expect([...target.subarray(8)]).toEqual(expected);
    expect(new Set(expected).size).toBeGreaterThan(elements);
  });
});
