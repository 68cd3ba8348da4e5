import { MistletoeError } from '../core/errors.js';

export type StoredDType = 'F32' | 'F16' | 'BF16' | 'F64' | 'I64' | 'I32' | 'U8' | 'BOOL';

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
}

export interface Checkpoint {
  readonly folder: string;
  /** config.json as it is; `{}` if there is none. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  readonly files: readonly string[];
}

const elementBytes: Readonly<Record<StoredDType, number>> = {
  F64: 8,
  I64: 8,
  F32: 4,
  I32: 4,
  F16: 2,
  BF16: 2,
  U8: 1,
  BOOL: 1,
};

export const storedDTypes: readonly string[] = Object.keys(elementBytes);

export const maximumRank = 16;

export function isStoredDType(name: unknown): name is StoredDType {
  return typeof name === 'string' && Object.hasOwn(elementBytes, name);
}

export function bytesPerElement(dtype: StoredDType): number {
  return elementBytes[dtype];
}

export function isFloatDType(dtype: StoredDType): boolean {
  return dtype === 'F32' || dtype === 'F16' || dtype === 'BF16' || dtype === 'F64';
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

export function refuse(problem: string, remedy: string, cause?: unknown): MistletoeError {
  return new MistletoeError('checkpoint', problem, { hint: remedy, cause });
}

export const downloadAgain = 'The file is damaged or incomplete: download or export it again.';
