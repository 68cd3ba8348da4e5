/** Writes a state dict as torch.save does, for code that reads no safetensors. */
import { basename } from 'node:path';
import type { PlainDType } from '../stored-tensor.js';
import { countElements } from '../stored-tensor.js';
import type { TensorSource } from '../tensor-source.js';
import type { Append, WriteOptions } from '../written-folder.js';
import { writeWholeFile } from '../written-folder.js';
import type { PlacedEntry } from './zip.js';
import { checksumOf, encodeDirectory, encodeLocalHeader } from './zip.js';

/** Pickle protocol 2: what state dicts hold and, for tests of refusals, any global. */
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

export async function writeTorchFile(
  path: string,
  tensors: readonly TensorSource[],
  options: WriteOptions = {},
): Promise<void> {
  const root = nameRoot(path);
  await writeWholeFile(
    path,
    async (append) => {
      const zip = createZip(append);
      await zip.add(`${root}/data.pkl`, [encodePickle(describeState(tensors))]);
      await zip.add(`${root}/byteorder`, [Buffer.from('little')]);
      for (const [key, tensor] of tensors.entries())
        await zip.add(`${root}/data/${key}`, await readPieces(tensor));
      await zip.add(`${root}/version`, [Buffer.from('3\n')]);
      await zip.finish();
    },
    options,
  );
}

export const nameRoot = (path: string): string => basename(path).replace(/\.[^.]*$/, '');

function createZip(append: Append) {
  const entries: PlacedEntry[] = [];
  let offset = 0;
  const write = async (bytes: Uint8Array): Promise<void> => {
    await append(bytes);
    offset += bytes.byteLength;
  };
  return {
    async add(name: string, pieces: readonly Uint8Array[]): Promise<void> {
      const sizeBytes = pieces.reduce((sum, { byteLength }) => sum + byteLength, 0);
      const entry = { name, sizeBytes, checksum: checksumOf(pieces), offset };
      entries.push(entry);
      for (const bytes of [encodeLocalHeader(entry), ...pieces]) await write(bytes);
    },
    finish: () => write(encodeDirectory(entries, offset)),
  };
}

/** The checksum comes before the content, so all pieces are needed at once. */
async function readPieces(tensor: TensorSource): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = [];
  for await (const piece of tensor.read()) pieces.push(piece.slice());
  return pieces;
}

function describeState(tensors: readonly TensorSource[]): Picklable {
  return new Map(
    tensors.map(({ name, dtype, shape }, key) => [
      name,
      pickleTensor({ dtype, shape, key: String(key), elements: countElements(shape) ?? 0 }),
    ]),
  );
}

const storageNames: Readonly<Record<PlainDType, string>> = {
  F32: 'FloatStorage',
  F16: 'HalfStorage',
  BF16: 'BFloat16Storage',
  F64: 'DoubleStorage',
  I64: 'LongStorage',
  I32: 'IntStorage',
  U8: 'ByteStorage',
  BOOL: 'BoolStorage',
};

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
