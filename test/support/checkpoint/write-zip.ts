import type { PlacedEntry } from '../../../src/checkpoint/torch/zip.js';
import { checksumOf, encodeDirectory, encodeLocalHeader } from '../../../src/checkpoint/torch/zip.js';

/** A zip of anything, in memory. */
export function encodeZip(
  entries: readonly (readonly [string, Uint8Array])[],
  { zip64 = false }: { zip64?: boolean } = {},
): Buffer {
  const pieces: Uint8Array[] = [];
  const placed: PlacedEntry[] = [];
  let offset = 0;
  for (const [name, content] of entries) {
    const entry = { name, sizeBytes: content.byteLength, checksum: checksumOf([content]), offset };
    const header = encodeLocalHeader(entry);
    pieces.push(header, content);
    placed.push(entry);
    offset += header.byteLength + content.byteLength;
  }
  return Buffer.concat([...pieces, encodeDirectory(placed, offset, { zip64 })]);
}
