import { MistletoeError } from '../core/errors.js';
import { editDistance } from '../core/vector.js';

const maximumNames = 5000;
const maximumLength = 120;

/** Up to three names that a missing one was probably meant to be, the nearest first. */
export function findNearNames(wanted: string, names: Iterable<string>): readonly string[] {
  const scored: { name: string; distance: number }[] = [];
  let seen = 0;
  for (const name of names) {
    seen += 1;
    if (seen > maximumNames) break;
    if (name.length > maximumLength || wanted.length > maximumLength) continue;
    const isAffix = name.endsWith(`.${wanted}`) || wanted.endsWith(`.${name}`);
    const distance = isAffix ? 1 : editDistance(wanted, name);
    if (distance <= Math.max(3, wanted.length / 3)) scored.push({ name, distance });
  }
  scored.sort((left, right) => left.distance - right.distance || (left.name < right.name ? -1 : 1));
  return scored.slice(0, 3).map(({ name }) => name);
}

export type PlainDType = keyof typeof elementBytes;

/** Quantized types of GGUF files: blocks of elements that share their scales. */
export type BlockDType = keyof typeof blockSizes;

export type StoredDType = PlainDType | BlockDType;

export interface StoredTensor {
  readonly name: string;
  readonly dtype: StoredDType;
  readonly shape: readonly number[];
  readonly file: string;
  /** Position of the first element in `file`. */
  readonly offsetBytes: number;
  /** From the first element to the end of the last one in the file; for strided tensors more than the elements need. */
  readonly sizeBytes: number;
  /** In elements, torch files only; absent means contiguous, row-major. */
  readonly strides?: readonly number[] | undefined;
  /**
   * GGUF files of the Llama family only: the rows of each of this many heads alternate between the head's first and
   * second half, as llama.cpp rotates them. Readers restore the order of transformers.
   */
  readonly interleavedHeads?: number | undefined;
}

export interface Checkpoint {
  readonly folder: string;
  /** config.json as it is; `{}` if there is none. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly files: readonly string[];
  /** That mask_embedding.pt names, beside a DFlash head. */
  readonly maskToken?: number | undefined;
}

const elementBytes = { F64: 8, I64: 8, F32: 4, I32: 4, F16: 2, BF16: 2, U8: 1, BOOL: 1 } as const;

interface BlockSize {
  readonly elements: number;
  readonly bytes: number;
}

const blockSizes = {
  Q4_0: { elements: 32, bytes: 18 },
  Q4_1: { elements: 32, bytes: 20 },
  Q5_0: { elements: 32, bytes: 22 },
  Q5_1: { elements: 32, bytes: 24 },
  Q8_0: { elements: 32, bytes: 34 },
  Q2_K: { elements: 256, bytes: 84 },
  Q3_K: { elements: 256, bytes: 110 },
  Q4_K: { elements: 256, bytes: 144 },
  Q5_K: { elements: 256, bytes: 176 },
  Q6_K: { elements: 256, bytes: 210 },
} as const satisfies Record<string, BlockSize>;

export const plainDTypes: readonly string[] = Object.keys(elementBytes);

export const maximumRank = 16;

export function isPlainDType(name: unknown): name is PlainDType {
  return typeof name === 'string' && Object.hasOwn(elementBytes, name);
}

export function isBlockDType(name: string): name is BlockDType {
  return Object.hasOwn(blockSizes, name);
}

export function blockSizeOf(dtype: StoredDType): BlockSize {
  return isBlockDType(dtype) ? blockSizes[dtype] : { elements: 1, bytes: elementBytes[dtype] };
}

/** A fraction for quantized types. Rows hold whole blocks, so products with multiples of a row are exact integers. */
export function bytesPerElement(dtype: StoredDType): number {
  const { elements, bytes } = blockSizeOf(dtype);
  return bytes / elements;
}

export function isFloatDType(dtype: StoredDType): boolean {
  return dtype === 'F32' || dtype === 'F16' || dtype === 'BF16' || dtype === 'F64' || isBlockDType(dtype);
}

/** Product of the dimensions; undefined if the shape is invalid or the product is not a safe integer. */
export function countElements(shape: readonly unknown[]): number | undefined {
  if (shape.length > maximumRank) return undefined;
  let count = 1;
  for (const dimension of shape) {
    if (!isSize(dimension)) return undefined;
    count *= dimension;
    if (!Number.isSafeInteger(count)) return undefined;
  }
  return count;
}

export function isSize(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

export function formatShape(shape: readonly unknown[]): string {
  const shown = shape.slice(0, maximumRank).map(String);
  return `[${shown.join(', ')}${shape.length > maximumRank ? ', ...' : ''}]`;
}

/** Names come from files: shortens them and escapes control characters for the terminal. */
export function quote(name: string): string {
  const short = name.length > 200 ? `${name.slice(0, 200)}...` : name;
  return JSON.stringify(short).replace(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, '?');
}

export function refuse(problem: string, remedy = downloadAgain, cause?: unknown): MistletoeError {
  return new MistletoeError('checkpoint', problem, { hint: remedy, cause });
}

export const downloadAgain = 'The file is damaged or incomplete: download or export it again.';

export function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
}
