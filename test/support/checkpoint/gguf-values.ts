/** Values in the types of GGUF files: plain ones, and the two simple quantizations. */
import { roundToBfloat16, roundToHalf } from './encode-values.js';
import type { GgmlType } from './encode-gguf.js';

/** The types that this file writes. */
export type WritableType = Extract<GgmlType, 'F32' | 'F16' | 'BF16' | 'Q8_0' | 'Q4_0'>;

export function encodeAs(values: Float32Array, type: WritableType): Uint8Array {
  switch (type) {
    case 'F32':
      return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    case 'F16':
      return new Uint8Array(Uint16Array.from(values, roundToHalf).buffer);
    case 'BF16':
      return new Uint8Array(Uint16Array.from(values, roundToBfloat16).buffer);
    case 'Q8_0':
      return inBlocks(values, 34, (block, bytes) => {
        const scale = Math.max(...block.map(Math.abs)) / 127;
        bytes.writeUInt16LE(roundToHalf(scale), 0);
        block.forEach((value, index) =>
          bytes.writeInt8(scale === 0 ? 0 : Math.round(value / scale), 2 + index),
        );
      });
    case 'Q4_0':
      return inBlocks(values, 18, (block, bytes) => {
        const largest = block.reduce((best, value) => (Math.abs(value) > Math.abs(best) ? value : best), 0);
        const scale = largest / -8;
        bytes.writeUInt16LE(roundToHalf(scale), 0);
        const quantize = (value: number): number =>
          scale === 0 ? 8 : Math.min(15, Math.max(0, Math.round(value / scale) + 8));
        for (let index = 0; index < 16; index += 1)
          bytes[2 + index] = quantize(block[index]!) | (quantize(block[index + 16]!) << 4);
      });
  }
}

export function bytesFor(count: number, type: WritableType): number {
  return {
    F32: 4 * count,
    F16: 2 * count,
    BF16: 2 * count,
    Q8_0: (34 * count) / 32,
    Q4_0: (18 * count) / 32,
  }[type];
}

function inBlocks(
  values: Float32Array,
  bytesPerBlock: number,
  encode: (block: readonly number[], bytes: Buffer) => void,
): Uint8Array {
  const encoded = Buffer.alloc((values.length / 32) * bytesPerBlock);
  for (let block = 0; block * 32 < values.length; block += 1) {
    const start = block * bytesPerBlock;
    encode([...values.subarray(block * 32, block * 32 + 32)], encoded.subarray(start, start + bytesPerBlock));
  }
  return encoded;
}
