import { writeFileSync } from 'node:fs';
import { parse } from 'node:path';
import type { Picklable } from './encode-pickle.js';
import { encodePickle, pickleTensor } from './encode-pickle.js';
import { encodeValues } from './encode-values.js';
import type { WritableTensors } from './encode-values.js';
import { encodeZip } from './write-zip.js';

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
  { numbers = {}, ...options }: { zip64?: boolean; numbers?: Readonly<Record<string, number>> } = {},
): Buffer {
  const dict = new Map<string, Picklable>(Object.entries(numbers));
  const storages: Record<string, Uint8Array> = {};
  for (const [index, [name, tensor]] of Object.entries(tensors).entries()) {
    const key = String(index);
    storages[key] = encodeValues(tensor);
    dict.set(name, pickleTensor({ ...tensor, key, elements: tensor.values.length }));
  }
  return joinTorchFile(root, encodePickle(dict), storages, options);
}

/** `numbers` stand beside the tensors. */
export function writeTorchFile(
  path: string,
  tensors: WritableTensors,
  numbers: Readonly<Record<string, number>> = {},
): void {
  writeFileSync(path, encodeTorchFile(parse(path).name, tensors, { numbers }));
}
