/** What a saved drafter holds, for tests. */
import { createHash } from 'node:crypto';
import { createDirectWeights } from '../../../src/checkpoint/direct-weights.js';
import { openCheckpoint } from '../../../src/checkpoint/open-checkpoint.js';
import { readFloat32, readIntegers } from '../../../src/checkpoint/read-tensor.js';
import { isFloatDType } from '../../../src/checkpoint/stored-tensor.js';
import { floatSource, storedSource } from '../../../src/checkpoint/tensor-source.js';
import { resolveRecipes } from '../../../src/checkpoint/weight-recipe.js';
import type { Drafter } from '../../../src/draft/drafter.js';
import { recogniseCheckpoint } from '../../../src/draft/systems.js';
import { readParameters, readStore } from '../../../src/train/loop/parameters.js';

export type Values = Map<string, Float32Array>;

export async function parametersOf({ drafter }: { readonly drafter: Drafter }): Promise<Values> {
  return new Map([...(await readParameters(drafter))].map(([name, { data }]) => [name, data]));
}

/** Under the recipes' own names, without a target. */
export async function weightsOf(folder: string): Promise<Values> {
  const checkpoint = await openCheckpoint(folder);
  const { recipes } = recogniseCheckpoint(checkpoint).system!.describe(checkpoint);
  const weights = await readStore(await createDirectWeights(resolveRecipes(checkpoint, recipes)));
  return new Map([...weights].map(([name, { data }]) => [name, data]));
}

/** Every tensor bit for bit, by its hash: as float32 where it is one of floats and `as` says so. */
export async function tensorsOf(folder: string, as: 'float32' | 'stored'): Promise<Record<string, unknown>> {
  const contents: Record<string, unknown> = {};
  for (const [name, tensor] of (await openCheckpoint(folder)).tensors) {
    const hash = createHash('sha256');
    const { shape } = tensor;
    const isWidened = as === 'float32' && isFloatDType(tensor.dtype);
    const { dtype, read } = isWidened
      ? floatSource({ name, shape, dtype: 'F32' }, () => readFloat32(tensor))
      : storedSource(tensor);
    for await (const piece of read()) hash.update(piece);
    contents[name] = { shape, dtype, hash: hash.digest('hex') };
  }
  return contents;
}

/** Floats as they are, vocabulary maps as integers. */
export async function contentsOf(folder: string): Promise<Map<string, Float32Array | Int32Array>> {
  const { tensors } = await openCheckpoint(folder);
  const contents = new Map<string, Float32Array | Int32Array>();
  for (const [name, tensor] of tensors)
    contents.set(name, await (/^[dt]2[dt]$/.test(name) ? readIntegers(tensor) : readFloat32(tensor)));
  return contents;
}
