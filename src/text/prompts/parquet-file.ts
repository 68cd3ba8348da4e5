/**
 * Text columns of a Parquet file, as the prompt sets of the hub have them: not nested, plain or with a dictionary, stored
 * as they are or packed by Snappy. Other columns are not touched. The file announces counts and sizes of everything; none
 * is believed before it is compared with the bytes that are there and with what a prompt set may have.
 */
import { fileLimits, maxPrompts } from '../../core/limits.js';
import { ByteBudget, ByteReader } from './byte-reader.js';
import { unpackSnappy } from './snappy.js';
import {
  listOf,
  numberOf,
  readThriftRecord,
  recordOf,
  recordsOf,
  sizeOf,
  textOf,
  type ThriftRecord,
} from './thrift-record.js';

export type TextRow = Readonly<Record<string, string | null>>;

/** Numbers of the format. */
const byteArray = 6;
const repetitions = ['required', 'optional', 'repeated'];
const codecs = ['UNCOMPRESSED', 'SNAPPY', 'GZIP', 'LZO', 'BROTLI', 'LZ4', 'ZSTD', 'LZ4_RAW'];
const encodings = [
  ...['PLAIN', '', 'PLAIN_DICTIONARY', 'RLE', 'BIT_PACKED', 'DELTA_BINARY_PACKED'],
  ...['DELTA_LENGTH_BYTE_ARRAY', 'DELTA_BYTE_ARRAY', 'RLE_DICTIONARY', 'BYTE_STREAM_SPLIT'],
];
const pageTypes = { data: 0, dictionary: 2, dataV2: 3 } as const;

/** Throws an Error that says what is wrong with the file. */
export function readParquetTexts(bytes: Buffer, columns: readonly string[]): readonly TextRow[] {
  const budget = new ByteBudget(fileLimits.unfoldedParquet);
  const footer = readThriftRecord(openFooter(bytes, budget));
  const schema = listTopLevel(recordsOf(footer, 2));
  const groups = recordsOf(footer, 4);
  const counts = groups.map((group) => sizeOf(group, 3, 'number of rows'));
  const count = counts.reduce((sum, rows) => sum + rows, 0);
  if (count > maxPrompts) throw new Error(`it has ${count} rows; at most ${maxPrompts} are read`);
  const texts = columns.map((name) => {
    const element = schema.get(name);
    if (element === undefined || numberOf(element, 1) !== byteArray)
      throw new Error(`it has no column ${name} of texts`);
    const repetition = repetitions[numberOf(element, 3) ?? 0];
    if (repetition !== 'required' && repetition !== 'optional')
      throw new Error(`its column ${name} has lists`);
    const isOptional = repetition === 'optional';
    return groups.flatMap((group, index) =>
      readColumn(bytes, budget, findChunk(group, name), { name, isOptional, rows: counts[index]! }),
    );
  });
  return Array.from({ length: count }, (_, row) =>
    Object.fromEntries(columns.map((name, column) => [name, texts[column]![row]!])),
  );
}

const magic = 'PAR1';

function openFooter(bytes: Buffer, budget: ByteBudget): ByteReader {
  const end = bytes.length - 8;
  if (end < 4 || bytes.toString('latin1', bytes.length - 4) !== magic)
    throw new Error(`it does not end with ${magic}, as Parquet files do`);
  const size = bytes.readUInt32LE(end);
  if (size > end - 4) throw new Error(`its description of ${size} bytes does not fit in it`);
  return new ByteReader(bytes.subarray(end - size, end), budget);
}

/** The schema is a tree in depth-first order. */
function listTopLevel(schema: readonly ThriftRecord[]): ReadonlyMap<string, ThriftRecord> {
  const found = new Map<string, ThriftRecord>();
  // Elements that are still missing below the top level.
  let pending = 0;
  for (const element of schema.slice(1)) {
    const name = textOf(element, 4);
    if (pending === 0 && name !== undefined) found.set(name, element);
    const children = numberOf(element, 5) ?? 0;
    pending += children - (pending === 0 ? 0 : 1);
  }
  return found;
}

function findChunk(group: ThriftRecord, name: string): ThriftRecord {
  for (const column of recordsOf(group, 1)) {
    const chunk = recordOf(column, 3);
    if (chunk === undefined) continue;
    const [first, ...more] = listOf(chunk, 3);
    if (Buffer.isBuffer(first) && first.toString() === name && more.length === 0) return chunk;
  }
  throw new Error(`a group of its rows has no column ${name}`);
}

interface Column {
  readonly name: string;
  readonly isOptional: boolean;
  readonly rows: number;
}

function readColumn(
  bytes: Buffer,
  budget: ByteBudget,
  chunk: ThriftRecord,
  { name, isOptional, rows }: Column,
): readonly (string | null)[] {
  const codec = numberOf(chunk, 4) ?? 0;
  if (codec > 1) throw new Error(`its column ${name} is packed by ${codecs[codec] ?? codec}; SNAPPY is read`);
  // Some writers name a dictionary at 0, where no page can be.
  const dictionaryStart = numberOf(chunk, 11) ?? 0;
  const start = dictionaryStart > 0 ? dictionaryStart : sizeOf(chunk, 9, 'place of a page');
  const size = sizeOf(chunk, 7, 'size of a column');
  if (start + size > bytes.length)
    throw new Error(`its column ${name} ends at ${start + size}, after the file`);
  const reader = new ByteReader(bytes.subarray(start, start + size), budget);
  const unpack = (part: ByteReader, unpacked: number): ByteReader => {
    if (codec === 0) return part;
    budget.spend(unpacked);
    return new ByteReader(unpackSnappy(part, unpacked), budget);
  };
  const found: (string | null)[] = [];
  let dictionary: readonly string[] = [];
  while (found.length < rows) {
    const header = readThriftRecord(reader);
    const type = numberOf(header, 1);
    const unpacked = sizeOf(header, 2, 'size of a page');
    const page = reader.part(sizeOf(header, 3, 'size of a page'));
    const details = recordOf(header, type === pageTypes.dictionary ? 7 : type === pageTypes.dataV2 ? 8 : 5);
    if (details === undefined) throw new Error(`a page of its column ${name} has the type ${type ?? 'none'}`);
    const count = sizeOf(details, 1, 'number of values');
    if (type === pageTypes.dictionary) {
      if (count > maxPrompts) throw new Error(`its column ${name} has a dictionary of ${count} texts`);
      dictionary = readTexts(unpack(page, unpacked), count);
      continue;
    }
    if (count > rows - found.length)
      throw new Error(`its column ${name} has more values than rows (${rows})`);
    const isV2 = type === pageTypes.dataV2;
    // Version 2 has the levels in front, never packed.
    const levels = isV2 ? page.part(sizeOf(details, 5, 'size of levels')) : undefined;
    const body = isV2 && details.get(7) === false ? page : unpack(page, unpacked - (levels?.left ?? 0));
    const present = isOptional
      ? readRuns(levels ?? body.part(body.uint32()), 1, count)
      : new Uint32Array(count).fill(1);
    const encoding = numberOf(details, isV2 ? 4 : 2);
    const values = readValues(body, encoding, present.filter(Boolean).length, dictionary, name);
    let next = 0;
    for (const isPresent of present) {
      const value = isPresent === 0 ? null : values[next++]!;
      budget.spend(value?.length ?? 0);
      found.push(value);
    }
  }
  return found;
}

function readValues(
  reader: ByteReader,
  encoding: number | undefined,
  count: number,
  dictionary: readonly string[],
  name: string,
): readonly string[] {
  const known = encodings[encoding ?? -1];
  if (known === 'PLAIN') return readTexts(reader, count);
  if (known !== 'PLAIN_DICTIONARY' && known !== 'RLE_DICTIONARY') {
    const given = known ?? `number ${encoding ?? 'none'}`;
    throw new Error(`its column ${name} has the encoding ${given}; PLAIN and RLE_DICTIONARY are read`);
  }
  if (count === 0) return [];
  return Array.from(readRuns(reader, reader.byte(), count), (index) => {
    const text = dictionary[index];
    if (text !== undefined) return text;
    throw new Error(`its column ${name} has text ${index} of a dictionary of ${dictionary.length}`);
  });
}

function readTexts(reader: ByteReader, count: number): readonly string[] {
  if (4 * count > reader.left) throw new Error(`${count} texts are announced in ${reader.left} bytes`);
  return Array.from({ length: count }, () => reader.take(reader.uint32()).toString());
}

/** Numbers of `width` bits: runs of one number, and groups of eight numbers. */
function readRuns(reader: ByteReader, width: number, count: number): Uint32Array {
  if (width > 24) throw new Error(`it has numbers of ${width} bits`);
  const bytes = Math.ceil(width / 8);
  const found = new Uint32Array(count);
  for (let filled = 0; filled < count;) {
    const head = reader.varint();
    if (head % 2 === 0) {
      const value = bytes === 0 ? 0 : reader.take(bytes).readUIntLE(0, bytes);
      const end = Math.min(count, filled + head / 2);
      found.fill(value, filled, end);
      filled = end;
      continue;
    }
    // The last group may be cut off where its numbers are not needed.
    const needed = Math.min(8 * Math.floor(head / 2), count - filled);
    const packed = reader.take(Math.min(reader.left, Math.floor(head / 2) * width));
    if (8 * packed.length < needed * width) throw new Error('its packed numbers end too early');
    for (let index = 0; index < needed; index++) {
      let value = 0;
      for (let bit = 0; bit < width; bit++) {
        const place = index * width + bit;
        value |= ((packed[place >> 3]! >> (place & 7)) & 1) << bit;
      }
      found[filled++] = value;
    }
  }
  return found;
}
