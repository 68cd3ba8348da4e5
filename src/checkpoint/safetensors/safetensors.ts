/**
 * A safetensors file: the header's length (8 bytes, little-endian), a JSON object from tensor name to dtype, shape
 * and byte range, then the data. Only the header is read here.
 * Everything that the reference implementation refuses (huggingface/safetensors, tensor.rs) is refused: oversized or
 * truncated headers, invalid UTF-8 or JSON, nesting deeper than 127, lone surrogates, metadata that is not an object
 * of strings, missing or repeated fields, unknown dtypes, sizes that are not plain digits, ranges of the wrong
 * length, and ranges that overlap, leave holes or do not end with the file.
 * Also refused, because no valid file needs it: headers over 32 MiB or with leading white space, any repeated key,
 * numbers that are not sizes, sizes from 2^53 on, and more than 16 dimensions.
 */
import * as z from '../../core/schema.js';
import { isRecord } from '../../core/json-text.js';
import { fileLimits } from '../../core/limits.js';
import { readBytes, refuseGitPointer, withFile, type BinaryFile } from '../binary-file.js';
import type { StoredTensor } from '../stored-tensor.js';
import {
  bytesPerElement,
  countElements,
  downloadAgain,
  formatShape,
  isSize,
  isPlainDType,
  quote,
  refuse,
  plainDTypes,
} from '../stored-tensor.js';

/** The limit of serde_json, which the reference implementation uses. */
const deepest = 127;

/**
 * Finds what JSON.parse accepts although readers disagree on its meaning, as a phrase before "in its header". The text
 * must be valid JSON.
 */
function findJsonFault(text: string): string | undefined {
  const open: (Set<string> | undefined)[] = []; // keys of the objects around this place; undefined for a list
  let expectsKey = false;
  for (let position = 0; position < text.length; position += 1) {
    const character = text[position]!;
    if (character === '"') {
      let end = position + 1;
      while (text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
      const value = JSON.parse(text.slice(position, end + 1)) as string;
      if (/\p{Cs}/u.test(value)) return `has half of a surrogate pair in the text ${quote(value)}`;
      const keys = expectsKey ? open.at(-1) : undefined;
      if (keys?.has(value) === true) return `names ${quote(value)} twice`;
      keys?.add(value);
      expectsKey = false;
      position = end;
    } else if (character === '{' || character === '[') {
      open.push(character === '{' ? new Set() : undefined);
      if (open.length > deepest) return `nests more than ${deepest} levels`;
      expectsKey = character === '{';
    } else if (character === '}' || character === ']') {
      open.pop();
    } else if (character === ',') {
      expectsKey = open.at(-1) !== undefined;
    } else if (/[-\d]/.test(character)) {
      const [number] = /^[-+.\deE]+/.exec(text.slice(position, position + 400))!;
      if (!/^\d+$/.test(number) || !Number.isSafeInteger(Number(number)))
        return `has the number ${number.slice(0, 40)}, expected digits below 2^53`;
      position += number.length - 1;
    }
  }
  return undefined;
}

const lengthBytes = 8;

export function readSafetensorsHeader(path: string): Promise<StoredTensor[]> {
  return withFile(path, async (file) => {
    const { header, dataStart } = await readHeader(file);
    const tensors: StoredTensor[] = [];
    for (const [name, entry] of Object.entries(header)) {
      if (name !== '__metadata__') tensors.push(parseEntry(file, dataStart, name, entry));
      else if (entry !== null && !z.record(z.string(), z.string()).safeParse(entry).success)
        throw refuse(`${file.path} has a __metadata__ that is not an object of texts`);
    }
    checkCoverage(file, dataStart, tensors);
    return tensors;
  });
}

async function readHeader(file: BinaryFile) {
  if (file.sizeBytes < lengthBytes + 2) {
    throw refuse(`${file.path} has ${file.sizeBytes} bytes, too few for a safetensors file`);
  }
  refuseGitPointer(file, await readBytes(file, 0, Math.min(file.sizeBytes, 32)));
  const length = (await readBytes(file, 0, lengthBytes)).readBigUInt64LE();
  if (length > BigInt(file.sizeBytes - lengthBytes)) {
    throw refuse(
      `${file.path} announces a header of ${length.toString()} bytes but has only ${file.sizeBytes} bytes in all`,
    );
  }
  if (length > BigInt(fileLimits.safetensorsHeader)) {
    throw refuse(
      `${file.path} announces a header of ${length.toString()} bytes; at most ${fileLimits.safetensorsHeader} are read`,
      'Split the checkpoint into shards.',
    );
  }
  const bytes = await readBytes(file, lengthBytes, Number(length));
  return { header: parseHeader(file, bytes), dataStart: lengthBytes + bytes.byteLength };
}

function parseHeader(file: BinaryFile, bytes: Uint8Array): Record<string, unknown> {
  let header: unknown;
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    header = JSON.parse(text);
  } catch (cause) {
    throw refuse(`${file.path} has a header that is not JSON`, downloadAgain, cause);
  }
  if (!isRecord(header)) throw refuse(`${file.path} has a header that is not a JSON object`);
  if (!text.startsWith('{')) throw refuse(`${file.path} has a header that does not begin with its brace`);
  const fault = findJsonFault(text);
  if (fault !== undefined) {
    throw refuse(
      `${file.path} ${fault} in its header`,
      'Export the checkpoint again: no reader can know what is meant.',
    );
  }
  return header;
}

function parseEntry(file: BinaryFile, dataStart: number, name: string, entry: unknown): StoredTensor {
  const where = `tensor ${quote(name)} in ${file.path}`;
  if (!isRecord(entry)) throw refuse(`${where} is not described by an object`);
  const { dtype, shape, data_offsets: offsets } = entry;
  if (!isPlainDType(dtype)) {
    const found = typeof dtype === 'string' ? quote(dtype) : 'no dtype';
    throw refuse(
      `${where} has ${found}, expected one of ${plainDTypes.join(', ')}`,
      'Convert the checkpoint to float16, bfloat16 or float32.',
    );
  }
  const count = Array.isArray(shape) ? countElements(shape) : undefined;
  if (!Array.isArray(shape) || count === undefined) {
    const describe = (size: unknown): string => (typeof size === 'number' ? String(size) : typeof size);
    const found = Array.isArray(shape) ? formatShape(shape.map(describe)) : 'no shape';
    throw refuse(`${where} has ${found}, expected a list of sizes with a sane product`);
  }
  const [start, end] = Array.isArray(offsets) && offsets.length === 2 ? (offsets as unknown[]) : [];
  if (!isSize(start) || !isSize(end) || start > end) {
    throw refuse(`${where} has no valid data_offsets, expected [start, end]`);
  }
  const sizeBytes = count * bytesPerElement(dtype);
  if (end - start !== sizeBytes) {
    throw refuse(`${where} has ${end - start} bytes, but ${dtype} ${formatShape(shape)} needs ${sizeBytes}`);
  }
  if (dataStart + end > file.sizeBytes) {
    throw refuse(
      `${where} ends at byte ${dataStart + end}, but the file has ${file.sizeBytes} bytes: it is truncated`,
    );
  }
  return {
    name,
    dtype,
    shape: shape as number[],
    file: file.path,
    offsetBytes: dataStart + start,
    sizeBytes,
  };
}

function checkCoverage(file: BinaryFile, dataStart: number, tensors: readonly StoredTensor[]): void {
  const ordered = tensors.toSorted(
    (left, right) => left.offsetBytes - right.offsetBytes || left.sizeBytes - right.sizeBytes,
  );
  let covered = dataStart;
  let previous = 'the header';
  for (const tensor of ordered) {
    if (tensor.offsetBytes !== covered) {
      const fault = tensor.offsetBytes < covered ? 'overlaps' : 'leaves a hole after';
      throw refuse(`tensor ${quote(tensor.name)} in ${file.path} ${fault} ${previous}`);
    }
    covered += tensor.sizeBytes;
    previous = `tensor ${quote(tensor.name)}`;
  }
  if (covered !== file.sizeBytes) {
    throw refuse(`${file.path} has ${file.sizeBytes} bytes, but its header describes ${covered}`);
  }
}
