import { writeFileSync } from 'node:fs';
import { layOutSafetensors } from '../../../src/checkpoint/safetensors/write-safetensors.js';
import { encodeValues } from './encode-values.js';
import type { WritableTensors } from './encode-values.js';

/** The product's layout over values that are encoded without it. */
export function encodeSafetensors(tensors: WritableTensors): Buffer {
  const named = Object.entries(tensors).map(([name, tensor]) => ({ name, ...tensor }));
  const { header, tensors: ordered } = layOutSafetensors(named);
  return Buffer.concat([header, ...ordered.map(encodeValues)]);
}

/** Any header over any data, right or wrong. */
export function joinSafetensors(header: string, data: Uint8Array): Buffer {
  const text = Buffer.from(header);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.byteLength));
  return Buffer.concat([length, text, data]);
}

export function writeSafetensors(path: string, tensors: WritableTensors): void {
  writeFileSync(path, encodeSafetensors(tensors));
}
