/**
 * A checkpoint that ties its output to the embedding and stores an `lm_head.weight` all the same. If the two are
 * equal, as in older torch files, nothing is lost. If they differ, transformers 4 drops the stored one and version 5
 * uses it, so the file means two models and neither is chosen here. Both are read to tell, at every load: such files
 * are rare, and small models are the ones that tie. Names of one stored tensor need no reading.
 */
import { readFloat32, visitRows } from '../checkpoint/read-tensor.js';
import type { Checkpoint, StoredTensor } from '../checkpoint/stored-tensor.js';
import { bytesPerElement, formatShape, refuse } from '../checkpoint/stored-tensor.js';
import type { ModelConfiguration } from './configuration.js';

export const embeddingName = 'model.embed_tokens.weight';
export const outputName = 'lm_head.weight';

export async function requireTiedOutput(
  { folder, tensors }: Checkpoint,
  { tiedEmbeddings }: Pick<ModelConfiguration, 'tiedEmbeddings'>,
): Promise<void> {
  const output = tensors.get(outputName);
  const embedding = tensors.get(embeddingName);
  // An absent embedding is refused with the other weights.
  if (!tiedEmbeddings || output === undefined || embedding === undefined) return;
  const difference = await findDifference(embedding, output);
  if (difference === undefined) return;
  throw refuse(
    `${folder} ties its output to the embedding (tie_word_embeddings), but holds an ${outputName} of its own that ${difference}`,
    `Set tie_word_embeddings to false in config.json to use ${outputName}, or take the tensor out of the file to tie them.`,
  );
}

async function findDifference(embedding: StoredTensor, output: StoredTensor): Promise<string | undefined> {
  if (formatShape(embedding.shape) !== formatShape(output.shape)) {
    return `has shape ${formatShape(output.shape)}, the embedding's is ${formatShape(embedding.shape)}`;
  }
  if (isSameStorage(embedding, output)) return undefined;
  const columns = embedding.shape.at(-1) ?? 1;
  let row: number | undefined;
  const whole = embedding.strides === undefined ? undefined : await readFloat32(embedding);
  await visitRows(output, async ({ values, firstRow, rowCount }) => {
    if (row !== undefined) return;
    const expected =
      whole?.subarray(firstRow * columns, (firstRow + rowCount) * columns) ??
      (await readFloat32(selectRows(embedding, firstRow, rowCount)));
    const at = values.findIndex((value, index) => value !== expected[index]);
    if (at >= 0) row = firstRow + Math.floor(at / columns);
  });
  return row === undefined ? undefined : `differs from it, first in row ${row}`;
}

function isSameStorage(left: StoredTensor, right: StoredTensor): boolean {
  return (
    left.file === right.file &&
    left.offsetBytes === right.offsetBytes &&
    left.dtype === right.dtype &&
    String(left.strides) === String(right.strides)
  );
}

/** Consecutive rows of a contiguous matrix. */
function selectRows(tensor: StoredTensor, firstRow: number, rowCount: number): StoredTensor {
  const columns = tensor.shape.at(-1) ?? 1;
  const rowBytes = columns * bytesPerElement(tensor.dtype);
  return {
    ...tensor,
    shape: [rowCount, columns],
    offsetBytes: tensor.offsetBytes + firstRow * rowBytes,
    sizeBytes: rowCount * rowBytes,
  };
}
