import { existsSync, renameSync, statSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { weight } from '../graph/tensor.js';
import { createInterpreter } from '../../test/oracle/interpreter.js';
import type { DirectPart, WeightStore } from '../runtime/weights.js';
import { createDirectWeights } from './direct-weights.js';
import { openCheckpoint } from './open-checkpoint.js';
import type { StoredTensor } from './stored-tensor.js';
import { CachedModel } from '../../test/support/checkpoint/cached-model.js';
import { mixedRecipes, mixedTensors } from '../../test/support/checkpoint/mixed-recipes.js';
import { prepareWeights } from './cache/weight-cache.js';
import { resolveRecipes } from './weight-recipe.js';

const model = new CachedModel(mixedRecipes, mixedTensors);
const runtime = { readsCheckpoints: true };

/** What a program sees of each weight. */
async function valuesOf(store: WeightStore): Promise<Record<string, number[]>> {
  const outputs = Object.fromEntries(mixedRecipes.map(({ name, shape }) => [name, weight(name, shape)]));
  const program = await createInterpreter().compile(outputs, [store]);
  const values = await program.run({});
  return Object.fromEntries(Object.entries(values).map(([name, { data }]) => [name, Array.from(data)]));
}

async function createDirect(pieceBytes: number): Promise<WeightStore> {
  const checkpoint = await openCheckpoint(model.folder);
  return createDirectWeights(resolveRecipes(checkpoint, mixedRecipes), pieceBytes);
}

async function collect({ read }: DirectPart): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = [];
  for await (const piece of read()) pieces.push(piece.slice());
  return pieces;
}

/** The one part of a weight that is made of this tensor alone. */
async function readAlone(tensor: StoredTensor, transpose: boolean, pieceBytes = 1024) {
  const recipe = { name: 'w', shape: tensor.shape, parts: [{ tensor, transpose }] };
  const { tensors } = await createDirectWeights([recipe], pieceBytes);
  const part = tensors.get('w')!.parts[0]!;
  return { part, pieces: await collect(part) };
}

const floatsOf = (pieces: readonly Uint8Array[]): number[] =>
  pieces.flatMap((piece) => Array.from(new Float32Array(piece.buffer)));

describe('weights straight from a checkpoint', () => {
  it('are the weights of a cache and those in memory, value by value', async () => {
    const cached = await model.prepare();
    writeFileSync(join(model.parent, 'file'), '');
    const inMemory = await model.prepare({ cacheFolder: join(model.parent, 'file', 'cache') });
    const direct = await prepareWeights(await openCheckpoint(model.folder), mixedRecipes, { runtime });
    expect([cached.kind, inMemory.kind, direct.kind]).toEqual(['file', 'memory', 'checkpoint']);
    const expected = await valuesOf(cached);
    expect(expected['q transposed']!.slice(0, 4)).toEqual(
      [0, 6, 12, 18].map((index) => Math.fround((mixedTensors.q!.values as number[])[index]!)),
    );
    expect(await valuesOf(inMemory)).toEqual(expected);
    expect(await valuesOf(direct)).toEqual(expected);
    for (const pieceBytes of [1, 24, 100])
      expect(await valuesOf(await createDirect(pieceBytes))).toEqual(expected);
  });

  it('touch no cache folder', async () => {
    const { cacheFolder } = model;
    const checkpoint = await openCheckpoint(model.folder);
    await valuesOf(await prepareWeights(checkpoint, mixedRecipes, { runtime, cacheFolder }));
    expect(existsSync(cacheFolder)).toBe(false);
    await prepareWeights(checkpoint, mixedRecipes, { runtime: {}, cacheFolder });
    expect(existsSync(cacheFolder)).toBe(true);
  });

  it('come in whole rows, within the size that was asked for, in their own type', async () => {
    const { tensors } = await openCheckpoint(model.folder);
    const { part, pieces } = await readAlone(tensors.get('q')!, false, 60);
    expect(part).toMatchObject({ dtype: 'float32', shape: [4, 6], isTransposed: false });
    expect(pieces.map(({ length }) => length)).toEqual([48, 48]);
    expect(await collect(part)).toEqual(pieces);
    const halves = await readAlone(tensors.get('v')!, true, 1);
    expect(halves.part).toMatchObject({ dtype: 'float16', shape: [3, 6], isTransposed: true });
    expect(halves.pieces.map(({ length }) => length)).toEqual([12, 12, 12]);
    expect((await readAlone(tensors.get('k')!, false)).part.dtype).toBe('bfloat16');
  });

  it('can be left before their end, and read again', async () => {
    const { tensors } = await openCheckpoint(model.folder);
    const { part, pieces } = await readAlone(tensors.get('q')!, false, 24);
    for await (const piece of part.read()) {
      expect(piece).toEqual(pieces[0]);
      break;
    }
    expect(await collect(part)).toEqual(pieces);
  });

  it('are gathered where torch stored a view', async () => {
    const file = join(model.parent, 'views.bin');
    writeFileSync(file, new Uint8Array(Float32Array.from({ length: 24 }, (_, index) => index).buffer));
    const view = (shape: readonly number[], strides: readonly number[], first: number): StoredTensor => ({
      ...{ name: 'view', dtype: 'F32', file, shape, strides, offsetBytes: 4 * first },
      sizeBytes: 4 * shape.reduce((sum, size, axis) => sum + (size - 1) * strides[axis]!, 1),
    });
    const sliced = await readAlone(view([3, 2, 2], [8, 3, 1], 1), false, 16);
    expect(sliced.pieces).toHaveLength(3);
    expect(floatsOf(sliced.pieces)).toEqual([1, 2, 4, 5, 9, 10, 12, 13, 17, 18, 20, 21]);
    // A transpose is read as the matrix that lies there.
    const turned = await readAlone(view([4, 6], [1, 4], 0), false, 16);
    expect(turned.part).toMatchObject({ shape: [6, 4], isTransposed: true });
    expect(floatsOf(turned.pieces)).toEqual(Array.from({ length: 24 }, (_, index) => index));
    expect((await readAlone(view([4, 6], [1, 4], 0), true)).part.isTransposed).toBe(false);
  });

  it('are refused where the file ends before they do', async () => {
    const checkpoint = await openCheckpoint(model.folder);
    truncateSync(model.file, statSync(model.file).size - 2);
    await expect(prepareWeights(checkpoint, mixedRecipes, { runtime })).rejects.toThrow(
      /ends at byte \d+, but .* has \d+ bytes/,
    );
  });

  it('are refused where the file is cut short after it was looked at', async () => {
    const direct = await createDirect(24);
    truncateSync(model.file, 200);
    await expect(valuesOf(direct)).rejects.toThrow(/ends at byte \d+, but .* has 200 bytes/);
  });

  it('are refused where the file changes before they are read', async () => {
    const direct = await createDirect(24);
    utimesSync(model.file, 1, 1);
    await expect(valuesOf(direct)).rejects.toThrow(/changed while they were read/);
    renameSync(model.file, `${model.file}.gone`);
    await expect(valuesOf(direct)).rejects.toThrow(/does not exist/);
  });
});
