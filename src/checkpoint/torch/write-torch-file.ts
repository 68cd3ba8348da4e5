/** Writes a state dict as torch.save does, for code that reads no safetensors. */
import { basename } from 'node:path';
import { countElements } from '../stored-tensor.js';
import type { TensorSource } from '../tensor-source.js';
import { writeWholeFile, type Append, type WriteOptions } from '../written-folder.js';
import { storageNames } from './pickle-value.js';
import { checksumOf, encodeDirectory, encodeLocalHeader, type PlacedEntry } from './zip.js';

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
      await zip.add(`${root}/data.pkl`, [pickleState(tensors)]);
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

/** Pickle protocol 2: a dict of row-major tensors, each with a storage of its own. */
function pickleState(tensors: readonly TensorSource[]): Buffer {
  const items = tensors.flatMap((tensor, key) => [pickleText(tensor.name), pickleTensor(tensor, key)]);
  return Buffer.concat([opcodes('\x80\x02}('), ...items, opcodes('u.')]);
}

function pickleTensor({ dtype, shape }: TensorSource, key: number): Buffer {
  const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, 1));
  const storage = pickleTuple(
    pickleText('storage'),
    opcodes(`ctorch\n${storageNames[dtype]}\n`),
    pickleText(String(key)),
    pickleText('cpu'),
    pickleInteger(countElements(shape) ?? 0),
  );
  const parameters = pickleTuple(
    Buffer.concat([storage, opcodes('Q')]),
    pickleInteger(0), // the offset
    pickleTuple(...shape.map(pickleInteger)),
    pickleTuple(...strides.map(pickleInteger)),
    opcodes('\x89'), // needs no gradient
    opcodes('ccollections\nOrderedDict\n(tR'), // no hooks
  );
  return Buffer.concat([opcodes('ctorch._utils\n_rebuild_tensor_v2\n'), parameters, opcodes('R')]);
}

const opcodes = (codes: string): Buffer => Buffer.from(codes, 'latin1');

const pickleTuple = (...items: readonly Buffer[]): Buffer =>
  Buffer.concat([opcodes('('), ...items, opcodes('t')]);

function pickleText(value: string): Buffer {
  const text = Buffer.from(value);
  const head = Buffer.from('X....');
  head.writeUInt32LE(text.byteLength, 1);
  return Buffer.concat([head, text]);
}

function pickleInteger(value: number): Buffer {
  const isLong = value >= 2 ** 31;
  const bytes = isLong ? Buffer.from('\x8a\x08........', 'latin1') : Buffer.from('J....');
  if (isLong) bytes.writeBigInt64LE(BigInt(value), 2);
  else bytes.writeInt32LE(value, 1);
  return bytes;
}
