import { writeFileSync } from 'node:fs';
import { encodeValues } from './encode-values.js';
import type { WritableTensors } from './encode-values.js';

export function encodeSafetensors(tensors: WritableTensors): Buffer {
  const header: Record<string, unknown> = { __metadata__: { format: 'pt' } };
  const blocks: Uint8Array[] = [];
  let offset = 0;
  for (const [name, tensor] of Object.entries(tensors)) {
    const block = encodeValues(tensor);
    const end = offset + block.byteLength;
    header[name] = { dtype: tensor.dtype, shape: tensor.shape, data_offsets: [offset, end] };
    blocks.push(block);
    offset = end;
  }
  return joinSafetensors(JSON.stringify(header), Buffer.concat(blocks));
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
