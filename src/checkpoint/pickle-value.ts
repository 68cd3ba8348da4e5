/** What a pickle may hold; see pickle.ts for the machine that builds it. */
import type { StoredDType } from './stored-tensor.js';
import { isSize, maximumRank } from './stored-tensor.js';

export interface PickledStorage {
  readonly kind: 'storage';
  readonly key: string;
  readonly dtype: StoredDType;
  readonly elements: number;
}

export interface PickledTensor {
  readonly kind: 'tensor';
  readonly storage: PickledStorage;
  readonly offset: number; // in elements
  readonly shape: readonly number[];
  readonly strides: readonly number[]; // in elements
}

export type PickledDict = Map<string | number, PickleValue>;

export interface PickledGlobal {
  readonly kind: 'global';
  readonly name: string;
}

export interface PickledTuple {
  readonly kind: 'tuple';
  readonly items: readonly PickleValue[];
}

export type PickleValue =
  | null
  | boolean
  | number
  | string
  | PickledDict
  | PickleValue[]
  | PickledTuple
  | PickledGlobal
  | PickledStorage
  | PickledTensor;

/** Undefined too for more sizes than a tensor can have: a tuple is quoted often and should not be copied as often. */
export function asSizes(value: PickleValue | undefined): number[] | undefined {
  if (!isTuple(value) || value.items.length > maximumRank) return undefined;
  const sizes = value.items.filter(isSize);
  return sizes.length === value.items.length ? sizes : undefined;
}

function kindOf(value: PickleValue | undefined): string | undefined {
  return typeof value === 'object' && value !== null && 'kind' in value ? value.kind : undefined;
}

export function isTensor(value: PickleValue | undefined): value is PickledTensor {
  return kindOf(value) === 'tensor';
}

export function isTuple(value: PickleValue | undefined): value is PickledTuple {
  return kindOf(value) === 'tuple';
}

export function isGlobal(value: PickleValue | undefined): value is PickledGlobal {
  return kindOf(value) === 'global';
}

export function isStorage(value: PickleValue | undefined): value is PickledStorage {
  return kindOf(value) === 'storage';
}
