/** Pickles of any content, right or wrong, for tests of the reader. */
import { storageNames } from '../../../src/checkpoint/torch/pickle-value.js';
import type { PlainDType } from '../../../src/checkpoint/stored-tensor.js';

/** Pickle protocol 2: what state dicts hold, and any global. */
export type Picklable =
  | null
  | boolean
  | number
  | string
  | readonly Picklable[]
  | ReadonlyMap<string | number, Picklable>
  | PicklableGlobal
  | PicklableTuple
  | PicklableStorage
  | PicklableCall;

interface PicklableGlobal {
  readonly module: string;
  readonly name: string;
}

interface PicklableTuple {
  readonly tuple: readonly Picklable[];
}

interface PicklableStorage {
  readonly persistentId: PicklableTuple;
}

interface PicklableCall {
  readonly call: PicklableGlobal;
  readonly parameters: PicklableTuple;
}

export function pickleGlobal(module: string, name: string): PicklableGlobal {
  return { module, name };
}

export function pickleTuple(...tuple: Picklable[]): PicklableTuple {
  return { tuple };
}

function pickleStorage(type: PicklableGlobal, key: string, elements: number): PicklableStorage {
  return { persistentId: pickleTuple('storage', type, key, 'cpu', elements) };
}

export function encodePickle(value: Picklable): Buffer {
  return Buffer.concat([Buffer.from([0x80, 2]), encode(value), Buffer.from('.')]);
}

function encode(value: Picklable): Buffer {
  if (value === null) return Buffer.from('N');
  if (typeof value === 'boolean') return Buffer.from([value ? 0x88 : 0x89]);
  if (typeof value === 'number') return encodeNumber(value);
  if (typeof value === 'string') {
    const text = Buffer.from(value);
    const length = Buffer.alloc(4);
    length.writeUInt32LE(text.byteLength);
    return Buffer.concat([Buffer.from('X'), length, text]);
  }
  if (value instanceof Map) {
    const items = [...(value as ReadonlyMap<string | number, Picklable>)].flat();
    return Buffer.concat([Buffer.from('}('), ...items.map(encode), Buffer.from('u')]);
  }
  if ('module' in value) return Buffer.from(`c${value.module}\n${value.name}\n`);
  if ('tuple' in value)
    return Buffer.concat([Buffer.from('('), ...value.tuple.map(encode), Buffer.from('t')]);
  if ('persistentId' in value) return Buffer.concat([encode(value.persistentId), Buffer.from('Q')]);
  if ('call' in value) {
    return Buffer.concat([encode(value.call), encode(value.parameters), Buffer.from('R')]);
  }
  const list = value as readonly Picklable[];
  return Buffer.concat([Buffer.from(']('), ...list.map(encode), Buffer.from('e')]);
}

function encodeNumber(value: number): Buffer {
  const bytes = Buffer.alloc(10);
  if (!Number.isInteger(value)) {
    bytes.write('G');
    bytes.writeDoubleBE(value, 1);
    return bytes.subarray(0, 9);
  }
  if (Math.abs(value) < 2 ** 31) {
    bytes.write('J');
    bytes.writeInt32LE(value, 1);
    return bytes.subarray(0, 5);
  }
  bytes.writeUInt8(0x8a, 0);
  bytes.writeUInt8(8, 1);
  bytes.writeBigInt64LE(BigInt(value), 2);
  return bytes;
}

export interface TorchView {
  readonly dtype: PlainDType;
  readonly key: string;
  readonly elements: number;
  readonly offset?: number | undefined;
  readonly shape: readonly number[];
  readonly strides?: readonly number[] | undefined;
}

export function pickleTensor(view: TorchView): Picklable {
  const { dtype, key, elements, offset = 0, shape, strides = rowMajor(shape) } = view;
  const storage = pickleStorage(pickleGlobal('torch', storageNames[dtype]), key, elements);
  const hooks = { call: pickleGlobal('collections', 'OrderedDict'), parameters: pickleTuple() };
  return {
    call: pickleGlobal('torch._utils', '_rebuild_tensor_v2'),
    parameters: pickleTuple(storage, offset, pickleTuple(...shape), pickleTuple(...strides), false, hooks),
  };
}

function rowMajor(shape: readonly number[]): number[] {
  return shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, 1));
}
