/**
 * Writes safetensors as the reference implementation does: the widest types first and a padded header, so that all
 * elements are aligned when the file is mapped.
 */
import { MistletoeError } from '../../core/errors.js';
import { bytesPerElement, countElements, formatShape, quote, type PlainDType } from '../stored-tensor.js';
import type { TensorSource } from '../tensor-source.js';
import { type FileOutput, writeWholeFile } from '../written-folder.js';

interface DescribedTensor {
  readonly name: string;
  readonly dtype: PlainDType;
  readonly shape: readonly number[];
}

export async function writeSafetensors(
  path: string,
  tensors: readonly TensorSource[],
  openOutput?: (path: string) => Promise<FileOutput>,
): Promise<void> {
  const layout = layOutSafetensors(tensors);
  await writeWholeFile(
    path,
    async (append) => {
      await append(layout.header);
      for (const tensor of layout.tensors) {
        let written = 0;
        for await (const piece of tensor.read()) {
          written += piece.byteLength;
          await append(piece);
        }
        requireBytes(tensor, written);
      }
    },
    openOutput,
  );
}

const alignment = 8;

/** The header, with its length, and the tensors in the order of the file. */
export function layOutSafetensors<Tensor extends DescribedTensor>(tensors: readonly Tensor[]) {
  const ordered = tensors.toSorted(
    (left, right) => bytesPerElement(right.dtype) - bytesPerElement(left.dtype),
  );
  const entries = new Map<string, unknown>([['__metadata__', { format: 'pt' }]]);
  let offset = 0;
  for (const tensor of ordered) {
    const { name, dtype, shape } = tensor;
    if (entries.has(name)) {
      throw new MistletoeError('checkpoint', `A file cannot hold two tensors of the name ${quote(name)}.`);
    }
    const end = offset + countBytes(tensor);
    entries.set(name, { dtype, shape, data_offsets: [offset, end] });
    offset = end;
  }
  const text = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const headerBytes = Math.ceil(text.byteLength / alignment) * alignment;
  const header = Buffer.alloc(8 + headerBytes, ' ');
  header.writeBigUInt64LE(BigInt(headerBytes));
  text.copy(header, 8);
  return { header, tensors: ordered };
}

function countBytes({ name, dtype, shape }: DescribedTensor): number {
  const count = countElements(shape);
  if (count !== undefined) return count * bytesPerElement(dtype);
  throw new MistletoeError('shape', `Tensor ${quote(name)} cannot have the shape ${formatShape(shape)}.`);
}

export function requireBytes(tensor: DescribedTensor, written: number): void {
  const { name, dtype, shape } = tensor;
  if (written === countBytes(tensor)) return;
  throw new MistletoeError(
    'shape',
    `Tensor ${quote(name)} gave ${written} bytes, but ${dtype} ${formatShape(shape)} needs ${countBytes(tensor)}.`,
  );
}
