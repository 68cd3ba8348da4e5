/** A zip of stored entries as torch writes it: data aligned to 64 bytes by padding in the local extra field. */
export function encodeZip(
  entries: readonly (readonly [string, Uint8Array])[],
  { zip64 = false }: { zip64?: boolean } = {},
): Buffer {
  const pieces: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, content] of entries) {
    const path = Buffer.from(name);
    const padding = (64 - ((offset + 34 + path.byteLength) % 64)) % 64;
    const extra = Buffer.alloc(4 + padding, 'Z');
    extra.write('FB');
    extra.writeUInt16LE(padding, 2);
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt32LE(content.byteLength, 18);
    local.writeUInt32LE(content.byteLength, 22);
    local.writeUInt16LE(path.byteLength, 26);
    local.writeUInt16LE(extra.byteLength, 28);
    pieces.push(local, path, extra, Buffer.from(content));
    directory.push(encodeCentralEntry(path, content.byteLength, offset, zip64));
    offset += 30 + path.byteLength + extra.byteLength + content.byteLength;
  }
  const central = Buffer.concat(directory);
  const end = encodeEnd({ count: entries.length, size: central.byteLength, offset, zip64 });
  return Buffer.concat([...pieces, central, end]);
}

function encodeCentralEntry(path: Buffer, sizeBytes: number, offset: number, zip64: boolean): Buffer {
  const header = Buffer.alloc(46);
  header.writeUInt32LE(0x02014b50, 0);
  header.writeUInt32LE(zip64 ? 0xffffffff : sizeBytes, 20);
  header.writeUInt32LE(zip64 ? 0xffffffff : sizeBytes, 24);
  header.writeUInt16LE(path.byteLength, 28);
  header.writeUInt32LE(zip64 ? 0xffffffff : offset, 42);
  if (!zip64) return Buffer.concat([header, path]);
  const extra = Buffer.alloc(28);
  extra.writeUInt16LE(1, 0);
  extra.writeUInt16LE(24, 2);
  extra.writeBigUInt64LE(BigInt(sizeBytes), 4);
  extra.writeBigUInt64LE(BigInt(sizeBytes), 12);
  extra.writeBigUInt64LE(BigInt(offset), 20);
  header.writeUInt16LE(extra.byteLength, 30);
  return Buffer.concat([header, path, extra]);
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
  end.writeUInt32LE(zip64 ? 0xffffffff : size, 12);
  end.writeUInt32LE(zip64 ? 0xffffffff : offset, 16);
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
