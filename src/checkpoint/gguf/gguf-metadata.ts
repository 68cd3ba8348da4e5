/** Typed access to a GGUF file's metadata. A key of another type than expected is refused. */
import type { MistletoeError } from '../../core/errors.js';
import { quote, refuse } from '../stored-tensor.js';
import { fileLimits } from '../../core/limits.js';
import type { BinaryFile } from '../binary-file.js';

type ReadNumber = (bytes: Buffer, at: number) => number;

/** [type] Its bytes, and how they are read. */
export const numberTypes = {
  uint8: [1, (bytes, at) => bytes.readUInt8(at)],
  bool: [1, (bytes, at) => bytes.readUInt8(at)],
  int8: [1, (bytes, at) => bytes.readInt8(at)],
  uint16: [2, (bytes, at) => bytes.readUInt16LE(at)],
  int16: [2, (bytes, at) => bytes.readInt16LE(at)],
  uint32: [4, (bytes, at) => bytes.readUInt32LE(at)],
  int32: [4, (bytes, at) => bytes.readInt32LE(at)],
  float32: [4, (bytes, at) => bytes.readFloatLE(at)],
  float64: [8, (bytes, at) => bytes.readDoubleLE(at)],
  uint64: [8, (bytes, at) => Number(bytes.readBigUInt64LE(at))],
  int64: [8, (bytes, at) => Number(bytes.readBigInt64LE(at))],
} as const satisfies Readonly<Record<string, readonly [number, ReadNumber]>>;

export type NumberType = keyof typeof numberTypes;
export type ValueType = NumberType | 'string' | 'array';

/** Where a value is in the header's bytes; decoded when it is asked for. */
export interface StoredValue {
  readonly type: ValueType;
  /** Of an array's elements. */
  readonly elementType?: Exclude<ValueType, 'array'>;
  /** Elements of an array, bytes of a string; 1 for anything else. */
  readonly count: number;
  readonly start: number;
}

export interface GgufMetadata {
  readonly path: string;
  readonly bytes: Buffer;
  readonly metadata: ReadonlyMap<string, StoredValue>;
}

export function findNumber(header: GgufMetadata, key: string): number | undefined {
  const value = find(header, key, 'a number', ({ type }) => isNumberType(type) && type !== 'bool');
  return value && numberTypes[value.type as NumberType][1](header.bytes, value.start);
}

export function requireNumber(header: GgufMetadata, key: string): number {
  const value = findNumber(header, key);
  if (value !== undefined) return value;
  throw refuse(
    `${header.path} has no ${key} in its metadata`,
    'Convert the model again with a current llama.cpp, or download another file of it.',
  );
}

export function findFlag(header: GgufMetadata, key: string): boolean | undefined {
  const value = find(header, key, 'a boolean', ({ type }) => type === 'bool');
  return value && header.bytes[value.start] !== 0;
}

export function findText(header: GgufMetadata, key: string, maxBytes = 65_536): string | undefined {
  const value = find(header, key, 'a string', ({ type }) => type === 'string');
  if (value === undefined) return undefined;
  if (value.count > maxBytes) {
    throw refuse(
      `${header.path} has ${value.count} bytes in ${key}, at most ${maxBytes} are read`,
      'Use the file as the model’s authors published it.',
    );
  }
  return textAt(header, key, value.start, value.count);
}

export function findTexts(
  header: GgufMetadata,
  key: string,
  maxCount: number,
): readonly string[] | undefined {
  const value = find(header, key, 'an array of strings', ({ elementType }) => elementType === 'string');
  if (value === undefined) return undefined;
  if (value.count > maxCount) throw wrongCount(header, key, value, `at most ${maxCount}`);
  let position = value.start;
  return Array.from({ length: value.count }, () => {
    const length = Number(header.bytes.readBigUInt64LE(position));
    const start = position + 8;
    position = start + length;
    return textAt(header, key, start, length);
  });
}

export function findNumbers(
  header: GgufMetadata,
  key: string,
  expectedCount: number,
): readonly number[] | undefined {
  const value = find(header, key, 'an array of numbers', ({ elementType = '' }) => isNumberType(elementType));
  if (value === undefined) return undefined;
  if (value.count !== expectedCount) throw wrongCount(header, key, value, String(expectedCount));
  const [size, read] = numberTypes[value.elementType as NumberType];
  return Array.from({ length: value.count }, (_, index) => read(header.bytes, value.start + index * size));
}

function find(
  { metadata, path }: GgufMetadata,
  key: string,
  expected: string,
  isExpected: (value: StoredValue) => boolean,
): StoredValue | undefined {
  const value = metadata.get(key);
  if (value === undefined || isExpected(value)) return value;
  const found = value.elementType === undefined ? value.type : `array of ${value.elementType}`;
  throw refuse(`${path} has ${quote(key)} of the type ${found}, expected ${expected}`);
}

function isNumberType(type: string): type is NumberType {
  return Object.hasOwn(numberTypes, type);
}

function textAt({ path, bytes }: GgufMetadata, key: string, start: number, length: number): string {
  return decodeText(bytes.subarray(start, start + length), () =>
    refuse(`${path} has text in ${quote(key)} that is not UTF-8`),
  );
}

function wrongCount(
  { path }: GgufMetadata,
  key: string,
  { count }: StoredValue,
  expected: string,
): MistletoeError {
  return refuse(`${path} has ${count} elements in ${quote(key)}, expected ${expected}`);
}

/** Reads the header of a GGUF file step by step; every length is checked before anything is read or allocated. */

const maxNameBytes = 65_535;

/** The header is longer than the bytes that were read of the file so far. */
export class MoreBytesNeeded extends Error {}

export class HeaderCursor {
  position = 0;

  constructor(
    private readonly file: BinaryFile,
    readonly bytes: Buffer,
    /** How far a header may reach. */
    private readonly readableBytes: number,
  ) {}

  /** The position of the next `length` bytes. */
  skip(length: number, what: string): number {
    const start = this.position;
    const end = start + length;
    if (end > this.readableBytes) {
      const { path, sizeBytes } = this.file;
      if (sizeBytes <= fileLimits.ggufHeader)
        throw refuse(`${path} has ${sizeBytes} bytes and ends before ${what}`);
      throw refuse(
        `${path} has a header of more than ${fileLimits.ggufHeader} bytes (${what} ends at ${showSize(end)})`,
      );
    }
    if (end > this.bytes.length) throw new MoreBytesNeeded();
    this.position = end;
    return start;
  }

  uint32(what: string): number {
    return this.bytes.readUInt32LE(this.skip(4, what));
  }

  /** A length or a count; Infinity if a double cannot hold it exactly. */
  size(what: string): number {
    const value = this.bytes.readBigUInt64LE(this.skip(8, what));
    return value > BigInt(Number.MAX_SAFE_INTEGER) ? Infinity : Number(value);
  }

  name(what: string): string {
    const length = this.size(what);
    if (length > maxNameBytes) throw refuse(`${this.file.path} has ${what} of ${showSize(length)} bytes`);
    const start = this.skip(length, what);
    return decodeText(this.bytes.subarray(start, start + length), () =>
      refuse(`${this.file.path} has ${what} that is not UTF-8`),
    );
  }
}

export function showSize(size: number): string {
  return size === Infinity ? 'more than 2^53' : String(size);
}

/** Buffer's decoder is faster than TextDecoder and puts U+FFFD in place of wrong bytes. */
export function decodeText(bytes: Buffer, fail: () => Error): string {
  const text = bytes.toString('utf8');
  if (text.includes('\ufffd') && !Buffer.from(text).equals(bytes)) throw fail();
  return text;
}
