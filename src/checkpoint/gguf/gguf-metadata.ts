/** Typed access to a GGUF file's metadata. A key of another type than expected is refused. */
import type { MistletoeError } from '../../core/errors.js';
import { downloadAgain, quote, refuse } from '../stored-tensor.js';
import { numberBytes, type GgufHeader, type NumberType, type StoredValue } from './gguf-header.js';
import { decodeText } from './header-cursor.js';

type Source = Pick<GgufHeader, 'path' | 'bytes' | 'metadata'>;

export function findNumber(header: Source, key: string): number | undefined {
  const value = find(header, key, 'a number', ({ type }) => isNumberType(type) && type !== 'bool');
  return value && numberReaders[value.type as NumberType](header.bytes, value.start);
}

export function requireNumber(header: Source, key: string): number {
  const value = findNumber(header, key);
  if (value !== undefined) return value;
  throw refuse(
    `${header.path} has no ${key} in its metadata`,
    'Convert the model again with a current llama.cpp, or download another file of it.',
  );
}

export function findFlag(header: Source, key: string): boolean | undefined {
  const value = find(header, key, 'a boolean', ({ type }) => type === 'bool');
  return value && header.bytes[value.start] !== 0;
}

export function findText(header: Source, key: string, maxBytes = 65_536): string | undefined {
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

export function findTexts(header: Source, key: string, maxCount: number): readonly string[] | undefined {
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
  header: Source,
  key: string,
  expectedCount: number,
): readonly number[] | undefined {
  const value = find(header, key, 'an array of numbers', ({ elementType = '' }) => isNumberType(elementType));
  if (value === undefined) return undefined;
  if (value.count !== expectedCount) throw wrongCount(header, key, value, String(expectedCount));
  const type = value.elementType as NumberType;
  return Array.from({ length: value.count }, (_, index) =>
    numberReaders[type](header.bytes, value.start + index * numberBytes[type]),
  );
}

function find(
  { metadata, path }: Source,
  key: string,
  expected: string,
  isExpected: (value: StoredValue) => boolean,
): StoredValue | undefined {
  const value = metadata.get(key);
  if (value === undefined || isExpected(value)) return value;
  const found = value.elementType === undefined ? value.type : `array of ${value.elementType}`;
  throw refuse(`${path} has ${quote(key)} of the type ${found}, expected ${expected}`, downloadAgain);
}

function isNumberType(type: string): type is NumberType {
  return Object.hasOwn(numberBytes, type);
}

const numberReaders: Readonly<Record<NumberType, (bytes: Buffer, at: number) => number>> = {
  uint8: (bytes, at) => bytes.readUInt8(at),
  bool: (bytes, at) => bytes.readUInt8(at),
  int8: (bytes, at) => bytes.readInt8(at),
  uint16: (bytes, at) => bytes.readUInt16LE(at),
  int16: (bytes, at) => bytes.readInt16LE(at),
  uint32: (bytes, at) => bytes.readUInt32LE(at),
  int32: (bytes, at) => bytes.readInt32LE(at),
  float32: (bytes, at) => bytes.readFloatLE(at),
  float64: (bytes, at) => bytes.readDoubleLE(at),
  uint64: (bytes, at) => Number(bytes.readBigUInt64LE(at)),
  int64: (bytes, at) => Number(bytes.readBigInt64LE(at)),
};

function textAt({ path, bytes }: Source, key: string, start: number, length: number): string {
  return decodeText(bytes.subarray(start, start + length), () =>
    refuse(`${path} has text in ${quote(key)} that is not UTF-8`, downloadAgain),
  );
}

function wrongCount({ path }: Source, key: string, { count }: StoredValue, expected: string): MistletoeError {
  return refuse(`${path} has ${count} elements in ${quote(key)}, expected ${expected}`, downloadAgain);
}
