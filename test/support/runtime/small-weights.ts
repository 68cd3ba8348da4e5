/** Weight stores of a few numbers, for tests. */
import { writeFile } from 'node:fs/promises';
import type { FileWeights, MemoryWeights, WeightLocation } from '../../../src/runtime/weights.js';

const alignment = 4096;

/** One tensor after another, each at a multiple of the page size. */
export async function writeWeights(
  path: string,
  tensors: Readonly<Record<string, { shape: readonly number[]; values: readonly number[] }>>,
): Promise<FileWeights> {
  const locations = new Map<string, WeightLocation>();
  const chunks: Uint8Array[] = [];
  for (const [name, { shape, values }] of Object.entries(tensors)) {
    const data = new Uint8Array(Float32Array.from(values).buffer);
    const chunk = new Uint8Array(Math.ceil(data.length / alignment) * alignment);
    chunk.set(data);
    locations.set(name, {
      shape,
      offsetBytes: chunks.reduce((total, { length }) => total + length, 0),
      sizeBytes: data.length,
    });
    chunks.push(chunk);
  }
  await writeFile(path, Buffer.concat(chunks));
  return { kind: 'file', path, tensors: locations };
}

export const holdInMemory = (
  name: string,
  shape: readonly number[],
  values: readonly number[],
): MemoryWeights => ({
  kind: 'memory',
  tensors: new Map([[name, { shape, data: Float32Array.from(values) }]]),
});
