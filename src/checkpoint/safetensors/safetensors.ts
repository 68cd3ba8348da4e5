/**
 * A safetensors file: 8 bytes with the header's length (little-endian), a JSON object from tensor name to dtype, shape
 * and byte range, then the data. Only the header is read here.
 *
 * What the reference implementation refuses is refused here (huggingface/safetensors, tensor.rs, which reads by serde):
 * 1. The file has the header that its first 8 bytes announce, and that has at most 100,000,000 bytes.
 * 2. The header is UTF-8 and one JSON object, nested at most 127 deep, with white space behind it at will.
 * 3. No text in it, key or value, has half of a surrogate pair, and no number is beyond a double.
 * 4. `__metadata__` stands there once at most and is null or an object whose values are all texts.
 * 5. Every other value is an object with `dtype`, `shape` and `data_offsets`, none of them twice; others are ignored.
 * 6. `dtype` is a known name.
 * 7. `shape` is a list and `data_offsets` a pair of sizes. A size is written in digits: no sign, point or exponent,
 *    so that -0, 1.0 and 1e0 are none.
 * 8. The product of the shape and the dtype's size does not overflow and is the length of the byte range.
 * 9. The ranges, in order, begin at 0, follow each other without overlap or hole, and end with the file, so that two
 *    names never share bytes and nothing hides between them.
 *
 * Refused here though the reference accepts it, because nothing honest needs it: a header over 32 MiB or with white
 * space before its `{` (the format's description demands that brace), any key twice in any object (the reference keeps
 * the last tensor of a name), numbers that are no sizes in fields that are ignored, sizes from 2^53 on, more than 16
 * dimensions, an entry written as a list and a dtype as an object (both by serde's grace), and dtypes not read here.
 */
import { fileLimits } from '../../core/limits.js';
import type { BinaryFile } from '../binary-file.js';
import { readBytes, refuseGitPointer, withFile } from '../binary-file.js';
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

/**
 * What JSON.parse lets pass and a header of tensors may not have, because readers disagree on what it means: a key twice
 * in one object (JSON.parse keeps the last without a word), a number that is not written in digits (1.0, 1e0 and -0
 * become 1 and 0) or that a double cannot hold exactly, half of a surrogate pair in a text, and deep nesting.
 */

/** Where serde_json, with which the reference implementation of safetensors reads, gives up. */
const deepest = 127;

/** The first fault as a phrase that "in its header" can follow; undefined where there is none. The text must be valid JSON. */
function findJsonFault(text: string, quote: (value: string) => string): string | undefined {
  const open: (Set<string> | undefined)[] = []; // keys of the objects around this place; undefined for a list
  let expectsKey = false;
  for (let position = 0; position < text.length; position += 1) {
    const character = text[position]!;
    if (character === '"') {
      const end = findStringEnd(text, position);
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
    } else if (character === '-' || isDigit(character)) {
      const number = readNumber(text, position);
      if (!/^\d+$/.test(number) || !Number.isSafeInteger(Number(number)))
        return `has the number ${number.slice(0, 40)}, expected digits below 2^53`;
      position += number.length - 1;
    }
  }
  return undefined;
}

function isDigit(character: string): boolean {
  return character >= '0' && character <= '9';
}

function readNumber(text: string, start: number): string {
  const pattern = /[-+.\deE]+/y;
  pattern.lastIndex = start;
  return pattern.exec(text)![0];
}

function findStringEnd(text: string, start: number): number {
  let position = start + 1;
  while (text[position] !== '"') position += text[position] === '\\' ? 2 : 1;
  return position;
}

const lengthBytes = 8;

export function readSafetensorsHeader(path: string): Promise<StoredTensor[]> {
  return withFile(path, async (file) => {
    const { header, dataStart } = await readHeader(file);
    const tensors: StoredTensor[] = [];
    for (const [name, entry] of Object.entries(header)) {
      if (name === '__metadata__') requireTexts(file, entry);
      else tensors.push(parseEntry({ file, name, entry, dataStart }));
    }
    checkCoverage(file, dataStart, tensors);
    return tensors;
  });
}

async function readHeader(file: BinaryFile): Promise<{ header: Record<string, unknown>; dataStart: number }> {
  if (file.sizeBytes < lengthBytes + 2) {
    throw refuse(`${file.path} has ${file.sizeBytes} bytes, too few for a safetensors file`, downloadAgain);
  }
  refuseGitPointer(file, await readBytes(file, 0, Math.min(file.sizeBytes, 32)));
  const length = (await readBytes(file, 0, lengthBytes)).readBigUInt64LE();
  if (length > BigInt(file.sizeBytes - lengthBytes)) {
    throw refuse(
      `${file.path} announces a header of ${length.toString()} bytes but has only ${file.sizeBytes} bytes in all`,
      downloadAgain,
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
  if (!isRecord(header)) throw refuse(`${file.path} has a header that is not a JSON object`, downloadAgain);
  if (!text.startsWith('{'))
    throw refuse(`${file.path} has a header that does not begin with its brace`, downloadAgain);
  const fault = findJsonFault(text, quote);
  if (fault !== undefined) {
    throw refuse(
      `${file.path} ${fault} in its header`,
      'Export the checkpoint again: no reader can know what is meant.',
    );
  }
  return header;
}

function requireTexts(file: BinaryFile, metadata: unknown): void {
  if (metadata === null) return;
  if (isRecord(metadata) && Object.values(metadata).every((value) => typeof value === 'string')) return;
  throw refuse(`${file.path} has a __metadata__ that is not an object of texts`, downloadAgain);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

interface EntrySource {
  readonly file: BinaryFile;
  readonly name: string;
  readonly entry: unknown;
  readonly dataStart: number;
}

function parseEntry({ file, name, entry, dataStart }: EntrySource): StoredTensor {
  const where = `tensor ${quote(name)} in ${file.path}`;
  if (!isRecord(entry)) throw refuse(`${where} is not described by an object`, downloadAgain);
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
    const found = Array.isArray(shape) ? formatShape(shape.map(describeDimension)) : 'no shape';
    throw refuse(`${where} has ${found}, expected a list of sizes with a sane product`, downloadAgain);
  }
  const [start, end] = Array.isArray(offsets) && offsets.length === 2 ? (offsets as unknown[]) : [];
  if (!isSize(start) || !isSize(end) || start > end) {
    throw refuse(`${where} has no valid data_offsets, expected [start, end]`, downloadAgain);
  }
  const sizeBytes = count * bytesPerElement(dtype);
  if (end - start !== sizeBytes) {
    throw refuse(
      `${where} has ${end - start} bytes, but ${dtype} ${formatShape(shape)} needs ${sizeBytes}`,
      downloadAgain,
    );
  }
  if (dataStart + end > file.sizeBytes) {
    throw refuse(
      `${where} ends at byte ${dataStart + end}, but the file has ${file.sizeBytes} bytes: it is truncated`,
      downloadAgain,
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

function describeDimension(dimension: unknown): string {
  return typeof dimension === 'number' ? String(dimension) : typeof dimension;
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
      throw refuse(`tensor ${quote(tensor.name)} in ${file.path} ${fault} ${previous}`, downloadAgain);
    }
    covered += tensor.sizeBytes;
    previous = `tensor ${quote(tensor.name)}`;
  }
  if (covered !== file.sizeBytes) {
    throw refuse(
      `${file.path} has ${file.sizeBytes} bytes, but its header describes ${covered}`,
      downloadAgain,
    );
  }
}
