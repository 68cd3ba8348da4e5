import { crc32 } from 'node:zlib';

/** A zip of anything, in memory. */
export function encodeZip(
  entries: readonly (readonly [string, Uint8Array])[],
  { zip64 = false }: { zip64?: boolean } = {},
): Buffer {
  const pieces: Uint8Array[] = [];
  const placed: PlacedEntry[] = [];
  let offset = 0;
  for (const [name, content] of entries) {
    const entry = { name, sizeBytes: content.byteLength, checksum: crc32(content), offset };
    const header = encodeLocalHeader(entry);
    pieces.push(header, content);
    placed.push(entry);
    offset += header.byteLength + content.byteLength;
  }
  return Buffer.concat([...pieces, encodeDirectory(placed, offset, zip64)]);
}

/**
 * A zip of stored entries as torch writes it: data aligned to 64 bytes by padding in the local extra field.
 */
interface PlacedEntry {
  readonly name: string;
  readonly sizeBytes: number;
  readonly checksum: number;
  readonly offset: number;
}

const alignment = 64;
/** Values that do not fit 32 bits go to an extra block; this marks them. */
const wideMark = 0xffffffff;

function encodeLocalHeader({ name, sizeBytes, checksum, offset }: PlacedEntry): Buffer {
  const path = Buffer.from(name);
  const isLarge = sizeBytes >= wideMark;
  const wide = isLarge ? encodeWide([sizeBytes, sizeBytes]) : Buffer.alloc(0);
  const header = Buffer.alloc(30);
  header.writeUInt32LE(0x04034b50, 0);
  header.writeUInt32LE(checksum, 14);
  header.writeUInt32LE(isLarge ? wideMark : sizeBytes, 18);
  header.writeUInt32LE(isLarge ? wideMark : sizeBytes, 22);
  header.writeUInt16LE(path.byteLength, 26);
  const end = offset + header.byteLength + path.byteLength + wide.byteLength + 4;
  const padding = Buffer.alloc(4 + ((alignment - (end % alignment)) % alignment), 'Z');
  padding.write('FB');
  padding.writeUInt16LE(padding.byteLength - 4, 2);
  header.writeUInt16LE(wide.byteLength + padding.byteLength, 28);
  return Buffer.concat([header, path, wide, padding]);
}

function encodeDirectory(entries: readonly PlacedEntry[], offset: number, zip64: boolean): Buffer {
  const central = Buffer.concat(entries.map((entry) => encodeCentralEntry(entry, zip64)));
  return Buffer.concat([
    central,
    encodeEnd({ count: entries.length, size: central.byteLength, offset, zip64 }),
  ]);
}

function encodeCentralEntry({ name, sizeBytes, checksum, offset }: PlacedEntry, zip64: boolean): Buffer {
  const path = Buffer.from(name);
  const header = Buffer.alloc(46);
  header.writeUInt32LE(0x02014b50, 0);
  header.writeUInt32LE(checksum, 16);
  header.writeUInt32LE(zip64 ? wideMark : sizeBytes, 20);
  header.writeUInt32LE(zip64 ? wideMark : sizeBytes, 24);
  header.writeUInt16LE(path.byteLength, 28);
  header.writeUInt32LE(zip64 ? wideMark : offset, 42);
  if (!zip64) return Buffer.concat([header, path]);
  const extra = encodeWide([sizeBytes, sizeBytes, offset]);
  header.writeUInt16LE(extra.byteLength, 30);
  return Buffer.concat([header, path, extra]);
}

function encodeWide(values: readonly number[]): Buffer {
  const extra = Buffer.alloc(4 + 8 * values.length);
  extra.writeUInt16LE(1, 0);
  extra.writeUInt16LE(8 * values.length, 2);
  for (const [place, value] of values.entries()) extra.writeBigUInt64LE(BigInt(value), 4 + 8 * place);
  return extra;
}

interface Ending {
  readonly count: number;
  readonly size: number;
  readonly offset: number;
  readonly zip64: boolean;
}

function encodeEnd({ count, size, offset, zip64 }: Ending): Buffer {
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(zip64 ? 0xffff : count, 8);
  end.writeUInt16LE(zip64 ? 0xffff : count, 10);
  end.writeUInt32LE(zip64 ? wideMark : size, 12);
  end.writeUInt32LE(zip64 ? wideMark : offset, 16);
  if (!zip64) return end;
  const record = Buffer.alloc(56);
  record.writeUInt32LE(0x06064b50, 0);
  record.writeBigUInt64LE(44n, 4);
  record.writeBigUInt64LE(BigInt(count), 24);
  record.writeBigUInt64LE(BigInt(count), 32);
  record.writeBigUInt64LE(BigInt(size), 40);
  record.writeBigUInt64LE(BigInt(offset), 48);
  const locator = Buffer.alloc(20);
  locator.writeUInt32LE(0x07064b50, 0);
  locator.writeBigUInt64LE(BigInt(offset + size), 8);
  locator.writeUInt32LE(1, 16);
  return Buffer.concat([record, locator, end]);
}
