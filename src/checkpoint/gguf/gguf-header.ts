/**
 * The header of a GGUF file (versions 2 and 3, little-endian): metadata as typed key-value pairs, then name, shape, type and
 * offset of each tensor. The data follows, each tensor at a multiple of the alignment.
 *
 * Refused: counts and lengths beyond the file or the limits, nested arrays, keys and tensors that are listed twice, types
 * that are not read, rows that are not whole blocks, and tensors that do not follow each other exactly as llama.cpp demands.
 */
import { fileLimits } from '../../core/limits.js';
import { readBytes, refuseGitPointer, withFile, type BinaryFile } from '../binary-file.js';
import type { StoredDType } from '../stored-tensor.js';
import { blockSizeOf, countElements, formatShape, isBlockDType, quote, refuse } from '../stored-tensor.js';
import type { GgufMetadata, StoredValue, ValueType } from './gguf-metadata.js';
import { HeaderCursor, MoreBytesNeeded, numberTypes, showSize } from './gguf-metadata.js';

const valueTypes: readonly ValueType[] = [
  ...(['uint8', 'int8', 'uint16', 'int16', 'uint32', 'int32', 'float32', 'bool', 'string'] as const),
  ...(['array', 'uint64', 'int64', 'float64'] as const),
];

export interface GgufTensor {
  readonly name: string;
  readonly dtype: StoredDType;
  /** The slowest axis first, as in safetensors. */
  readonly shape: readonly number[];
  /** From the beginning of the file. */
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

export interface GgufHeader extends GgufMetadata {
  readonly tensors: readonly GgufTensor[];
}

const typeNames: readonly (string | undefined)[] = [
  ...['F32', 'F16', 'Q4_0', 'Q4_1', 'Q4_2', 'Q4_3', 'Q5_0', 'Q5_1', 'Q8_0', 'Q8_1'],
  ...['Q2_K', 'Q3_K', 'Q4_K', 'Q5_K', 'Q6_K', 'Q8_K', 'IQ2_XXS', 'IQ2_XS', 'IQ3_XXS', 'IQ1_S'],
  ...['IQ4_NL', 'IQ3_S', 'IQ2_S', 'IQ4_XS', 'I8', 'I16', 'I32', 'I64', 'F64', 'IQ1_M'],
  ...['BF16', 'Q4_0_4_4', 'Q4_0_4_8', 'Q4_0_8_8', 'TQ1_0', 'TQ2_0', 'IQ4_NL_4_4', 'IQ4_NL_4_8'],
  ...['IQ4_NL_8_8', 'MXFP4', 'NVFP4', 'Q1_0', 'Q2_0'],
];

const maxEntries = 65_536;
const maxDimensions = 4;
const firstBytes = 2 ** 20;
const defaultAlignment = 32;

/** Reads only as much of the file as the header takes. */
export function readGgufHeader(path: string): Promise<GgufHeader> {
  return withFile(path, async (file) => {
    const readable = Math.min(file.sizeBytes, fileLimits.ggufHeader);
    for (let size = Math.min(readable, firstBytes); ; size = Math.min(readable, 4 * size)) {
      const bytes = await readBytes(file, 0, size);
      try {
        return parseHeader(file, new HeaderCursor(file, bytes, readable));
      } catch (cause) {
        if (!(cause instanceof MoreBytesNeeded)) throw cause;
      }
    }
  });
}

function parseHeader(file: BinaryFile, cursor: HeaderCursor): GgufHeader {
  const { path } = file;
  readVersion(file, cursor);
  const readCount = (what: string): number => {
    const count = cursor.size(`its number of ${what}`);
    if (count <= maxEntries) return count;
    throw refuse(`${path} announces ${showSize(count)} ${what}; at most ${maxEntries} are read`);
  };
  const tensorCount = readCount('tensors');
  const metadataCount = readCount('metadata entries');
  const metadata = new Map<string, StoredValue>();
  for (let entry = 0; entry < metadataCount; entry += 1) {
    const key = cursor.name(`key ${entry}`);
    if (metadata.has(key)) throw refuse(`${path} has the key ${quote(key)} twice`);
    metadata.set(key, readValue(file, cursor, key));
  }
  const listed: ListedTensor[] = [];
  for (let entry = 0; entry < tensorCount; entry += 1) listed.push(readTensor(file, cursor, entry));
  const alignment = readAlignment(path, cursor.bytes, metadata.get('general.alignment'));
  const dataStart = alignment * Math.ceil(cursor.position / alignment);
  const tensors = placeTensors(file, listed, dataStart, alignment);
  return { path, bytes: cursor.bytes, metadata, tensors };
}

function readVersion(file: BinaryFile, cursor: HeaderCursor): void {
  const { path } = file;
  const start = cursor.skip(Math.min(4, file.sizeBytes), 'its first bytes');
  const magic = cursor.bytes.toString('latin1', start, start + 4);
  if (magic !== 'GGUF') {
    refuseGitPointer(file, cursor.bytes.subarray(0, 32));
    throw refuse(`${path} begins with ${quote(magic)}, expected GGUF`, 'Check that it is a GGUF file.');
  }
  const version = cursor.uint32('its version');
  if (version === 2 || version === 3) return;
  const isSwapped = version !== 0 && (version & 0xffff) === 0;
  throw refuse(
    isSwapped
      ? `${path} is big-endian; little-endian GGUF files are read`
      : `${path} has the GGUF version ${version}; versions 2 and 3 are read`,
    'Convert the model again with a current llama.cpp, or download another file of it.',
  );
}

function readValue(file: BinaryFile, cursor: HeaderCursor, key: string): StoredValue {
  const what = `the value of ${quote(key)}`;
  const type = readValueType(file, cursor, what);
  if (type === 'string') {
    const count = cursor.size(what);
    return { type, count, start: cursor.skip(count, what) };
  }
  if (type !== 'array') return { type, count: 1, start: cursor.skip(numberTypes[type][0], what) };
  const elementType = readValueType(file, cursor, what);
  if (elementType === 'array')
    throw refuse(`${file.path} has arrays in ${quote(key)}, expected numbers or strings`);
  const count = cursor.size(what);
  const start = cursor.position;
  if (elementType !== 'string') cursor.skip(count * numberTypes[elementType][0], what);
  else for (let element = 0; element < count; element += 1) cursor.skip(cursor.size(what), what);
  return { type, elementType, count, start };
}

function readValueType(file: BinaryFile, cursor: HeaderCursor, what: string): ValueType {
  const number = cursor.uint32(what);
  const type = valueTypes[number];
  if (type !== undefined) return type;
  throw refuse(`${file.path} has the type ${number} for ${what}, expected 0 to 12`);
}

function readAlignment(path: string, bytes: Buffer, stored: StoredValue | undefined): number {
  if (stored === undefined) return defaultAlignment;
  const alignment = stored.type === 'uint32' ? bytes.readUInt32LE(stored.start) : 0;
  if (alignment >= 8 && alignment <= 65_536 && Number.isInteger(Math.log2(alignment))) return alignment;
  throw refuse(`${path} has the general.alignment ${alignment}, expected a power of two from 8 to 65536`);
}

interface ListedTensor extends Omit<GgufTensor, 'offsetBytes'> {
  /** From the beginning of the data. */
  readonly offset: number;
}

function readTensor(file: BinaryFile, cursor: HeaderCursor, entry: number): ListedTensor {
  const name = cursor.name(`the name of tensor ${entry}`);
  const where = `tensor ${quote(name)} in ${file.path}`;
  const dimensions = cursor.uint32(where);
  if (dimensions < 1 || dimensions > maxDimensions)
    throw refuse(`${where} has ${dimensions} dimensions, expected 1 to ${maxDimensions}`);
  const sizes = Array.from({ length: dimensions }, () => cursor.size(where));
  const dtype = requireType(cursor.uint32(where), where);
  const offset = cursor.size(where);
  const shape = sizes.toReversed();
  const { elements, bytes } = blockSizeOf(dtype);
  const count = countElements(shape);
  if (count === undefined || count === 0)
    throw refuse(`${where} has the shape ${formatShape(shape)}, expected positive sizes`);
  if (sizes[0]! % elements !== 0) {
    throw refuse(`${where} has rows of ${sizes[0]!} elements, but ${dtype} stores blocks of ${elements}`);
  }
  return { name, dtype, shape, offset, sizeBytes: (count / elements) * bytes };
}

function requireType(number: number, where: string): StoredDType {
  const name = typeNames[number];
  if (name === 'F32' || name === 'F16' || name === 'BF16' || name === 'F64') return name;
  if (name !== undefined && isBlockDType(name)) return name;
  throw refuse(
    `${where} has the type ${name ?? `number ${number}`}, which is not read`,
    'Use a file of the same model in F16, BF16, Q8_0, Q4_0, Q4_K or Q6_K, or convert this one with llama.cpp: ' +
      'llama-quantize --allow-requantize IN.gguf OUT.gguf Q8_0.',
  );
}

/** Tensors follow each other in the order of the list, each at the next multiple of the alignment. */
function placeTensors(
  file: BinaryFile,
  listed: readonly ListedTensor[],
  dataStart: number,
  alignment: number,
): readonly GgufTensor[] {
  const names = new Set<string>();
  let expected = 0;
  return listed.map(({ name, dtype, shape, offset, sizeBytes }) => {
    const where = `tensor ${quote(name)} in ${file.path}`;
    if (names.has(name)) throw refuse(`${file.path} has the tensor ${quote(name)} twice`);
    names.add(name);
    if (offset !== expected) throw refuse(`${where} begins at ${offset}, expected ${expected}`);
    const end = dataStart + offset + sizeBytes;
    if (end > file.sizeBytes) {
      throw refuse(`${where} ends at byte ${end}, but the file has ${file.sizeBytes} bytes: it is truncated`);
    }
    expected += alignment * Math.ceil(sizeBytes / alignment);
    return { name, dtype, shape, offsetBytes: dataStart + offset, sizeBytes };
  });
}
