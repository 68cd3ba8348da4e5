import { writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { encodeValues } from './encode-values.js';
import type { WritableDType, WritableTensors } from './encode-values.js';
import { encodePickle, pickleGlobal, pickleStorage, pickleTuple } from './write-pickle.js';
import type { Picklable } from './write-pickle.js';
import { encodeZip } from './write-zip.js';

const storageNames: Readonly<Record<WritableDType, string>> = {
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
  readonly dtype: WritableDType;
  readonly key: string;
  readonly elements: number;
  readonly offset?: number;
  readonly shape: readonly number[];
  readonly strides?: readonly number[];
}

/** The pickle of a tensor as torch.save writes it: a call that looks into a storage. */
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

/** A torch file with any pickle and any storages. */
export function joinTorchFile(
  root: string,
  pickle: Uint8Array,
  storages: Readonly<Record<string, Uint8Array>>,
  options: { zip64?: boolean } = {},
): Buffer {
  const entries: [string, Uint8Array][] = [
    [`${root}/data.pkl`, pickle],
    [`${root}/byteorder`, Buffer.from('little')],
    ...Object.entries(storages).map(([key, bytes]): [string, Uint8Array] => [`${root}/data/${key}`, bytes]),
    [`${root}/version`, Buffer.from('3\n')],
  ];
  return encodeZip(entries, options);
}

export function encodeTorchFile(
  root: string,
  tensors: WritableTensors,
  options: { zip64?: boolean } = {},
): Buffer {
  const dict = new Map<string, Picklable>();
  const storages: Record<string, Uint8Array> = {};
  for (const [index, [name, tensor]] of Object.entries(tensors).entries()) {
    const key = String(index);
    storages[key] = encodeValues(tensor);
    dict.set(name, pickleTensor({ ...tensor, key, elements: tensor.values.length }));
  }
  return joinTorchFile(root, encodePickle(dict), storages, options);
}

export function writeTorchFile(path: string, tensors: WritableTensors): void {
  writeFileSync(path, encodeTorchFile(basename(path).replace(/\.[^.]*$/, ''), tensors));
}
