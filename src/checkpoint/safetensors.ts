/**
 * A safetensors file: 8 bytes with the header's length (little-endian), a JSON object from tensor name to dtype, shape
 * and byte range, then the data. Only the header is read here. As the format demands, the ranges cover the data
 * exactly once: an overlap or a hole is refused, so two names never share bytes and nothing hides between them.
 */
import type { BinaryFile } from './binary-file.js';
import { readBytes, refuseGitPointer, withFile } from './binary-file.js';
import { findDuplicateKey } from './json-keys.js';
import type { StoredTensor } from './stored-tensor.js';
import {
  bytesPerElement,
  countElements,
  downloadAgain,
  formatShape,
  isSize,
  isStoredDType,
  quote,
  refuse,
  storedDTypes,
} from './stored-tensor.js';

const lengthBytes = 8;
const maximumHeaderBytes = 32 * 1024 * 1024;

export function readSafetensorsHeader(path: string): Promise<StoredTensor[]> {
  return withFile(path, async (file) => {
    const { header, dataStart } = await readHeader(file);
    const tensors: StoredTensor[] = [];
    for (const [name, entry] of Object.entries(header)) {
      if (name === '__metadata__') continue;
      tensors.push(parseEntry({ file, name, entry, dataStart }));
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
  if (length > BigInt(maximumHeaderBytes)) {
    throw refuse(
      `${file.path} announces a header of ${length.toString()} bytes; at most ${maximumHeaderBytes} are read`,
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
  const duplicate = findDuplicateKey(text);
  if (duplicate !== undefined) {
    throw refuse(
      `${file.path} names ${quote(duplicate)} twice in its header`,
      'Export the checkpoint again: no reader can know which of the two is meant.',
    );
  }
  return header;
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
  if (!isStoredDType(dtype)) {
    const found = typeof dtype === 'string' ? quote(dtype) : 'no dtype';
    throw refuse(
      `${where} has ${found}, expected one of ${storedDTypes.join(', ')}`,
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
