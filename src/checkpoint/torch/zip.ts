/**
 * The central directory of a zip file, including zip64. torch.save stores entries uncompressed, so an entry is a byte
 * range. Sizes and offsets are checked against the file, and an entry's own header must repeat its name.
 */
import { readBytes, type BinaryFile } from '../binary-file.js';
import { quote, refuse } from '../stored-tensor.js';

interface ZipEntry {
  readonly name: string;
  readonly headerOffset: number;
  readonly sizeBytes: number;
  readonly isPlain: boolean; // neither compressed nor encrypted
}

export interface ByteRange {
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

const endSignature = 0x06054b50;
const end64Signature = 0x06064b50;
const locator64Signature = 0x07064b50;
const centralSignature = 0x02014b50;
const localSignature = 0x04034b50;
const endBytes = 22;
const locator64Bytes = 20;
const end64Bytes = 56;
const centralBytes = 46;
const localBytes = 30;
const maximumDirectoryBytes = 32 * 1024 * 1024;

export type ZipFile = Awaited<ReturnType<typeof openZip>>;

export async function openZip(file: BinaryFile) {
  const { offset, size, count } = await locateDirectory(file);
  if (offset + size > file.sizeBytes || size > maximumDirectoryBytes)
    throw damaged(file, `its directory claims ${size} bytes at byte ${offset}`);
  const bytes = await readBytes(file, offset, size);
  const entries = new Map<string, ZipEntry>();
  let position = 0;
  for (let index = 0; index < count; index += 1) {
    const { entry, next } = parseCentralEntry(file, bytes, position);
    if (entries.has(entry.name)) throw damaged(file, `it holds ${quote(entry.name)} twice`);
    entries.set(entry.name, entry);
    position = next;
  }
  return {
    names: [...entries.keys()],
    locate(name: string): Promise<ByteRange> {
      const entry = entries.get(name);
      if (entry === undefined) throw refuse(`${file.path} has no entry ${quote(name)}`);
      return locateEntry(file, offset, entry);
    },
    async read(name: string, limitBytes: number): Promise<Buffer> {
      const { offsetBytes, sizeBytes } = await this.locate(name);
      if (sizeBytes <= limitBytes) return readBytes(file, offsetBytes, sizeBytes);
      throw refuse(
        `${quote(name)} in ${file.path} has ${sizeBytes} bytes, expected at most ${limitBytes}`,
        'Save only the state dict.',
      );
    },
  };
}

/** `end` of the entries is where the directory begins. */
async function locateEntry(file: BinaryFile, end: number, entry: ZipEntry): Promise<ByteRange> {
  if (!entry.isPlain) {
    throw refuse(
      `${quote(entry.name)} in ${file.path} is compressed or encrypted, expected a stored entry`,
      'Save the checkpoint again with torch.save; do not repack it with a zip tool.',
    );
  }
  if (entry.headerOffset + localBytes > end) throw damaged(file, `${quote(entry.name)} lies outside of it`);
  const header = await readBytes(file, entry.headerOffset, localBytes);
  const nameLength = header.readUInt16LE(26);
  const extraLength = header.readUInt16LE(28);
  const offsetBytes = entry.headerOffset + localBytes + nameLength + extraLength;
  if (header.readUInt32LE(0) !== localSignature || offsetBytes + entry.sizeBytes > end) {
    throw damaged(file, `${quote(entry.name)} does not lie where its directory says`);
  }
  const name = await readBytes(file, entry.headerOffset + localBytes, nameLength);
  if (name.toString('utf8') !== entry.name) {
    throw damaged(file, `${quote(entry.name)} is called ${quote(name.toString('utf8'))} in its own header`);
  }
  return { offsetBytes, sizeBytes: entry.sizeBytes };
}

async function locateDirectory(file: BinaryFile) {
  const tailBytes = Math.min(file.sizeBytes, endBytes + 0xffff + locator64Bytes);
  const tailStart = file.sizeBytes - tailBytes;
  const tail = await readBytes(file, tailStart, tailBytes);
  const end = findEndRecord(tail);
  if (end === undefined) throw damaged(file, 'its end record is missing, so it is probably truncated');
  const locator = end - locator64Bytes;
  if (locator >= 0 && tail.readUInt32LE(locator) === locator64Signature)
    return readEnd64(file, readSize(file, tail, locator + 8));
  const count = tail.readUInt16LE(end + 10);
  const [size, offset] = [tail.readUInt32LE(end + 12), tail.readUInt32LE(end + 16)];
  if (count === 0xffff || size === 0xffffffff || offset === 0xffffffff)
    throw damaged(file, 'its zip64 record is missing');
  return { count, size, offset };
}

/** Only a record whose comment ends the file counts. */
function findEndRecord(tail: Buffer): number | undefined {
  for (let position = tail.byteLength - endBytes; position >= 0; position -= 1) {
    if (tail.readUInt32LE(position) !== endSignature) continue;
    if (position + endBytes + tail.readUInt16LE(position + 20) === tail.byteLength) return position;
  }
  return undefined;
}

async function readEnd64(file: BinaryFile, offset: number) {
  if (offset + end64Bytes > file.sizeBytes) throw damaged(file, 'its zip64 record lies outside of it');
  const record = await readBytes(file, offset, end64Bytes);
  if (record.readUInt32LE(0) !== end64Signature) throw damaged(file, 'its zip64 record is missing');
  return {
    count: readSize(file, record, 32),
    size: readSize(file, record, 40),
    offset: readSize(file, record, 48),
  };
}

function parseCentralEntry(file: BinaryFile, bytes: Buffer, position: number) {
  if (position + centralBytes > bytes.byteLength || bytes.readUInt32LE(position) !== centralSignature) {
    throw damaged(file, 'its directory is shorter than it claims');
  }
  const nameEnd = position + centralBytes + bytes.readUInt16LE(position + 28);
  const extraEnd = nameEnd + bytes.readUInt16LE(position + 30);
  const next = extraEnd + bytes.readUInt16LE(position + 32);
  if (next > bytes.byteLength) throw damaged(file, 'its directory is shorter than it claims');

  const isEncrypted = (bytes.readUInt16LE(position + 8) & 1) !== 0;
  const method = bytes.readUInt16LE(position + 10);
  const compressedSize = bytes.readUInt32LE(position + 20);
  const size = bytes.readUInt32LE(position + 24);
  const headerOffset = bytes.readUInt32LE(position + 42);
  const wide = readZip64Extra(file, bytes.subarray(nameEnd, extraEnd), [size, compressedSize, headerOffset]);
  const isPlain = method === 0 && !isEncrypted && wide[0] === wide[1];
  const name = bytes.toString('utf8', position + centralBytes, nameEnd);
  const entry: ZipEntry = { name, headerOffset: wide[2], sizeBytes: wide[0], isPlain };
  return { entry, next };
}

/** Fields of 0xffffffff continue, in this order, as 64-bit numbers in the extra block with id 1. */
function readZip64Extra(file: BinaryFile, extra: Buffer, fields: [number, number, number]): typeof fields {
  if (!fields.includes(0xffffffff)) return fields;
  let position = 0;
  while (position + 4 <= extra.byteLength) {
    const id = extra.readUInt16LE(position);
    const end = position + 4 + extra.readUInt16LE(position + 2);
    if (end > extra.byteLength) break;
    if (id === 1) {
      let cursor = position + 4;
      const readField = (field: number): number => {
        if (field !== 0xffffffff) return field;
        if (cursor + 8 > end) throw damaged(file, 'a zip64 entry lacks its sizes');
        cursor += 8;
        return readSize(file, extra, cursor - 8);
      };
      return [readField(fields[0]), readField(fields[1]), readField(fields[2])];
    }
    position = end;
  }
  throw damaged(file, 'a zip64 entry lacks its sizes');
}

function readSize(file: BinaryFile, bytes: Buffer, position: number): number {
  const value = bytes.readBigUInt64LE(position);
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw damaged(file, `it claims a size of ${value.toString()}`);
  return Number(value);
}

function damaged(file: BinaryFile, why: string): Error {
  return refuse(`${file.path} is not a whole torch zip file: ${why}`);
}
