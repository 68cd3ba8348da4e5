import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openCheckpoint } from './open-checkpoint.js';
import { readFloat32 } from './read-tensor.js';
import { mixedRecipes, mixedTensors } from '../../test/support/checkpoint/mixed-recipes.js';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { writeSafetensors } from '../../test/support/checkpoint/write-safetensors.js';
import type { WeightRecipe } from './weight-recipe.js';
import { assembleWeight, cutPart, joinRows, resolveRecipes } from './weight-recipe.js';

const { path: folder, remove } = makeTemporaryFolder();
afterAll(remove);

const count = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);
// Neither side a multiple of the tile.
const large = Object.fromEntries(
  ['tall', 'taller'].map((name, index) => {
    const shape = [70 + index, 45];
    const values = Float32Array.from({ length: count(shape) }, (_, at) => at + index / 2);
    return [name, { dtype: 'F32' as const, shape, values }];
  }),
);
const largeRecipe: WeightRecipe = {
  name: 'large',
  shape: [45, 141],
  parts: Object.entries(large).map(([tensor, { shape }]) => ({ tensor, shape, transpose: true })),
};
const recipes = [...mixedRecipes, largeRecipe];
writeSafetensors(join(folder, 'model.safetensors'), { ...mixedTensors, ...large });

describe.each(recipes)('$name', (recipe) => {
  it('is cut into the tensors it was made of, and joined again', async () => {
    const checkpoint = await openCheckpoint(folder);
    const [resolved] = resolveRecipes(checkpoint, [recipe]);
    const weight = await assembleWeight(resolved!);
    const parts = recipe.parts.map(({ shape, transpose = false }, place) => ({
      rows: [{ values: cutPart(weight, recipe, place), firstRow: 0 }],
      shape,
      isTransposed: transpose,
    }));
    for (const [place, { tensor }] of recipe.parts.entries())
      expect(parts[place]!.rows[0]!.values).toEqual(await readFloat32(checkpoint.tensors.get(tensor)!));
    const joined = await joinRows(parts, recipe.shape, new Float32Array(weight.length));
    expect(joined).toEqual(weight);
  });
});
