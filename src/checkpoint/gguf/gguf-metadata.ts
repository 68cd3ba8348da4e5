/** Typed access to a GGUF file's metadata. A key of another type than expected is refused. */
import type { MistletoeError } from '../../core/errors.js';
import { downloadAgain, quote, refuse } from '../stored-tensor.js';
import type { GgufHeader, NumberType, StoredValue } from './gguf-header.js';
import { numberBytes } from './gguf-header.js';
import { decodeText } from './header-cursor.js';

type Source = Pick<GgufHeader, 'path' | 'bytes' | 'metadata'>;

export function findNumber(header: Source, key: string): number | undefined {
  const value = header.metadata.get(key);
  if (value === undefined) return undefined;
  if (!isNumberType(value.type) || value.type === 'bool') throw wrongType(header, key, value, 'a number');
  return numberAt(header.bytes, value.type, value.start);
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
  const value = header.metadata.get(key);
  if (value === undefined) return undefined;
  if (value.type !== 'bool') throw wrongType(header, key, value, 'a boolean');
  return header.bytes[value.start] !== 0;
}

export function findText(header: Source, key: string, maxBytes = 65_536): string | undefined {
  const value = header.metadata.get(key);
  if (value === undefined) return undefined;
  if (value.type !== 'string') throw wrongType(header, key, value, 'a string');
  if (value.count > maxBytes) {
    throw refuse(
      `${header.path} has ${value.count} bytes in ${key}, at most ${maxBytes} are read`,
      'Use the file as the model’s authors published it.',
    );
  }
  return textAt(header, key, value.start, value.count);
}

export function findTexts(header: Source, key: string, maxCount: number): readonly string[] | undefined {
  const value = header.metadata.get(key);
  if (value === undefined) return undefined;
  if (value.elementType !== 'string') throw wrongType(header, key, value, 'an array of strings');
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
  const value = header.metadata.get(key);
  if (value === undefined) return undefined;
  const { elementType, count, start } = value;
  if (elementType === undefined || !isNumberType(elementType))
    throw wrongType(header, key, value, 'an array of numbers');
  if (count !== expectedCount) throw wrongCount(header, key, value, String(expectedCount));
  const step = numberBytes[elementType];
  return Array.from({ length: count }, (_, index) =>
    numberAt(header.bytes, elementType, start + index * step),
  );
}

function isNumberType(type: string): type is NumberType {
  return Object.hasOwn(numberBytes, type);
}

function numberAt(bytes: Buffer, type: NumberType, at: number): number {
  switch (type) {
    case 'uint8':
    case 'bool':
      return bytes.readUInt8(at);
    case 'int8':
      return bytes.readInt8(at);
    case 'uint16':
      return bytes.readUInt16LE(at);
    case 'int16':
      return bytes.readInt16LE(at);
    case 'uint32':
      return bytes.readUInt32LE(at);
    case 'int32':
      return bytes.readInt32LE(at);
    case 'float32':
      return bytes.readFloatLE(at);
    case 'float64':
      return bytes.readDoubleLE(at);
    case 'uint64':
      return Number(bytes.readBigUInt64LE(at));
    case 'int64':
      return Number(bytes.readBigInt64LE(at));
  }
}

function textAt({ path, bytes }: Source, key: string, start: number, length: number): string {
  return decodeText(bytes.subarray(start, start + length), () =>
    refuse(`${path} has text in ${quote(key)} that is not UTF-8`, downloadAgain),
  );
}

function wrongType(
  { path }: Source,
  key: string,
  { type, elementType }: StoredValue,
  expected: string,
): MistletoeError {
  const found = elementType === undefined ? type : `array of ${elementType}`;
  return refuse(`${path} has ${quote(key)} of the type ${found}, expected ${expected}`, downloadAgain);
}

function wrongCount({ path }: Source, key: string, { count }: StoredValue, expected: string): MistletoeError {
  return refuse(`${path} has ${count} elements in ${quote(key)}, expected ${expected}`, downloadAgain);
}
