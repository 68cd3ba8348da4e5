/**
 * A state dict as torch.save writes it, for code that reads nothing else. Whoever can reads safetensors: a torch file is
 * a program that its reader runs.
 */
import { basename } from 'node:path';
import type { StoredDType } from './stored-tensor.js';
import { countElements } from './stored-tensor.js';
import type { TensorSource } from './tensor-source.js';
import type { Picklable } from './write-pickle.js';
import { encodePickle, pickleGlobal, pickleStorage, pickleTuple } from './write-pickle.js';
import type { PlacedEntry } from './write-zip.js';
import { checksumOf, encodeDirectory, encodeLocalHeader } from './write-zip.js';
import type { Append, WriteOptions } from './written-file.js';
import { writeWholeFile } from './written-file.js';

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

/** torch names the folder inside the zip after the file. */
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

/** All of them at once, because the checksum stands before the content. */
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

const storageNames: Readonly<Record<StoredDType, string>> = {
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
  readonly dtype: StoredDType;
  readonly key: string;
  readonly elements: number;
  readonly offset?: number;
  readonly shape: readonly number[];
  readonly strides?: readonly number[];
}

/** The pickle of a tensor: a call that looks into a storage. */
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
