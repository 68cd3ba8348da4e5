/**
 * The rules of the reference implementation of safetensors (huggingface/safetensors, safetensors/src/tensor.rs),
 * written down a second time: what it refuses, no reader may accept. Where our reader refuses more on purpose, the file
 * is accepted here and the reason is listed among its `oddities`.
 */
import type { StrictJson } from './strict-json.js';
import { parseStrictJson } from './strict-json.js';

export interface ReferenceTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly bigint[];
  /** In the data behind the header. */
  readonly start: bigint;
  readonly end: bigint;
}

export interface ReferenceReading {
  readonly tensors: readonly ReferenceTensor[];
  readonly headerBytes: number;
  readonly oddities: readonly string[];
}

const largestHeader = 100_000_000n;
const largestSize = 2n ** 64n - 1n;
const largestExact = BigInt(Number.MAX_SAFE_INTEGER);
const dtypeBytes: Readonly<Record<string, bigint>> = {
  ...{ BOOL: 1n, U8: 1n, I8: 1n, F8_E5M2: 1n, F8_E4M3: 1n, F8_E8M0: 1n },
  ...{ I16: 2n, U16: 2n, F16: 2n, BF16: 2n },
  ...{ I32: 4n, U32: 4n, F32: 4n, F64: 8n, I64: 8n, U64: 8n, C64: 8n },
};
const readHere = new Set(['F32', 'F16', 'BF16', 'F64', 'I64', 'I32', 'U8', 'BOOL']);

/** Undefined where the reference implementation refuses the file. */
export function readByReference(bytes: Buffer): ReferenceReading | undefined {
  try {
    return read(bytes);
  } catch (failure) {
    if (failure instanceof Error) return undefined;
    throw failure;
  }
}

function read(bytes: Buffer): ReferenceReading {
  const oddities = new Set<string>();
  if (bytes.length < 8) throw new Error('HeaderTooSmall');
  const length = bytes.readBigUInt64LE();
  if (length > largestHeader) throw new Error('HeaderTooLarge');
  if (length + 8n > BigInt(bytes.length)) throw new Error('InvalidHeaderLength');
  const headerBytes = Number(length);
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const text = utf8.decode(bytes.subarray(8, 8 + headerBytes));
  if (!text.startsWith('{')) oddities.add('the header does not begin with a brace');
  const header = parseStrictJson(text);
  if (!isObject(header)) throw new Error('the header is no object');
  const tensors = readTensors(header, oddities);
  if (BigInt(bytes.length) !== checkOffsets(tensors) + 8n + length)
    throw new Error('MetadataIncompleteBuffer');
  return { tensors, headerBytes, oddities: [...oddities] };
}

type JsonObject = Extract<StrictJson, { readonly kind: 'object' }>;

function isObject(value: StrictJson): value is JsonObject {
  return typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'object';
}

/** The map of tensors takes the last of two equal names; the metadata may stand there once. */
function readTensors({ entries }: JsonObject, oddities: Set<string>): ReferenceTensor[] {
  const tensors = new Map<string, ReferenceTensor>();
  let hasMetadata = false;
  for (const [name, value] of entries) {
    if (name === '__metadata__') {
      if (hasMetadata) throw new Error('duplicate field __metadata__');
      hasMetadata = true;
      checkMetadata(value, oddities);
      continue;
    }
    if (tensors.has(name)) oddities.add('a name twice');
    tensors.set(name, readTensor(name, value, oddities));
  }
  return [...tensors.values()];
}

function checkMetadata(value: StrictJson, oddities: Set<string>): void {
  if (value === null) return;
  if (!isObject(value)) throw new Error('metadata is no object');
  if (value.entries.some(([, text]) => typeof text !== 'string'))
    throw new Error('metadata is not of strings');
  if (new Set(value.entries.map(([key]) => key)).size < value.entries.length) oddities.add('a name twice');
}

/** A structure may be written as a list of its fields in order; unknown fields do not matter, known ones twice do. */
function readTensor(name: string, value: StrictJson, oddities: Set<string>): ReferenceTensor {
  if (Array.isArray(value)) {
    oddities.add('a tensor described by a list');
    const [dtype, shape, offsets] = value;
    if (value.length !== 3) throw new Error('invalid length');
    return buildTensor(name, dtype!, shape!, offsets!, oddities);
  }
  if (!isObject(value)) throw new Error('a tensor that is no object');
  const fields = new Map<string, StrictJson>();
  for (const [key, field] of value.entries) {
    const isKnown = ['dtype', 'shape', 'data_offsets'].includes(key);
    if (fields.has(key) && isKnown) throw new Error(`duplicate field ${key}`);
    if (fields.has(key)) oddities.add('a name twice');
    if (!isKnown && holdsOddNumber(field))
      oddities.add('a number that is no size in a field that is ignored');
    fields.set(key, field);
  }
  const [dtype, shape, offsets] = ['dtype', 'shape', 'data_offsets'].map((key) => fields.get(key));
  if (dtype === undefined || shape === undefined || offsets === undefined) throw new Error('missing field');
  return buildTensor(name, dtype, shape, offsets, oddities);
}

function holdsOddNumber(value: StrictJson): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(holdsOddNumber);
  if (value.kind === 'object') return value.entries.some(([, each]) => holdsOddNumber(each));
  return value.kind === 'fraction' || value.value < 0n || value.value > largestExact;
}

function buildTensor(
  name: string,
  dtype: StrictJson,
  shape: StrictJson,
  offsets: StrictJson,
  oddities: Set<string>,
): ReferenceTensor {
  const dtypeName = readDType(dtype, oddities);
  if (!Array.isArray(shape) || !Array.isArray(offsets) || offsets.length !== 2)
    throw new Error('invalid type');
  const sizes = shape.map(readSize);
  const [start, end] = offsets.map(readSize);
  const count = multiply(sizes);
  if (sizes.length > 16) oddities.add('more than 16 dimensions');
  if ([...sizes, count, end!].some((size) => size > largestExact))
    oddities.add('a size that is no exact number in JavaScript');
  if (multiply([count, dtypeBytes[dtypeName]!]) !== end! - start!) throw new Error('TensorInvalidInfo');
  return { name, dtype: dtypeName, shape: sizes, start: start!, end: end! };
}

/** A variant without contents may be written as a map from its name to null. */
function readDType(value: StrictJson, oddities: Set<string>): string {
  const [entry, ...more] =
    typeof value === 'object' && value !== null && isObject(value) ? value.entries : [];
  if (entry?.[1] === null && more.length === 0) oddities.add('a dtype written as an object');
  const name = typeof value === 'string' ? value : entry?.[1] === null && more.length === 0 ? entry[0] : '';
  if (!Object.hasOwn(dtypeBytes, name)) throw new Error('unknown variant');
  if (!readHere.has(name)) oddities.add('a dtype that is not read here');
  return name;
}

function readSize(value: StrictJson): bigint {
  const isWhole = typeof value === 'object' && value !== null && 'kind' in value && value.kind === 'whole';
  if (!isWhole || value.value < 0n) throw new Error('a size is no whole number');
  return value.value;
}

function multiply(sizes: readonly bigint[]): bigint {
  let product = 1n;
  for (const size of sizes) {
    product *= size;
    if (product > largestSize) throw new Error('ValidationOverflow');
  }
  return product;
}

/** One after the other, without a gap; gives back where the last one ends. */
function checkOffsets(tensors: readonly ReferenceTensor[]): bigint {
  const ordered = tensors.toSorted(
    (left, right) => compare(left.start, right.start) || compare(left.end, right.end),
  );
  let covered = 0n;
  for (const { start, end } of ordered) {
    if (start !== covered || end < start) throw new Error('InvalidOffset');
    covered = end;
  }
  return covered;
}

const compare = (left: bigint, right: bigint): number => (left < right ? -1 : left > right ? 1 : 0);
