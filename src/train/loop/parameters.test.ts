import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { TinyModels } from '../../../test/support/tiny-pair.js';
import { tiny } from '../../../test/support/tiny-checkpoints.js';
import { drafterVariants } from '../../../test/support/tiny-drafters.js';
import { createDirectWeights } from '../../checkpoint/direct-weights.js';
import { openCheckpoint } from '../../checkpoint/open-checkpoint.js';
import { mixedRecipes, mixedTensors } from '../../../test/support/checkpoint/mixed-recipes.js';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { writeSafetensors } from '../../../test/support/checkpoint/write-safetensors.js';
import { prepareWeights } from '../../checkpoint/cache/weight-cache.js';
import { assembleWeight, resolveRecipes } from '../../checkpoint/weight-recipe.js';
import { encodeHalves } from '../../core/half-floats.js';
import { readParameters, readStore } from './parameters.js';

const models = new TinyModels(tiny);
const { path: folder, remove } = makeTemporaryFolder();
afterAll(async () => {
  remove();
  await models.dispose();
});

writeSafetensors(join(folder, 'model.safetensors'), mixedTensors);

describe('readStore', () => {
  it('reads the same values from the cache, from memory and from the checkpoint', async () => {
    const checkpoint = await openCheckpoint(folder);
    const resolved = resolveRecipes(checkpoint, mixedRecipes);
    const expected = new Map<string, unknown>();
    for (const recipe of resolved)
      expected.set(recipe.name, { shape: recipe.shape, data: await assembleWeight(recipe) });
    const file = await prepareWeights(checkpoint, mixedRecipes, { cacheFolder: join(folder, 'cache') });
    const memory = await prepareWeights(checkpoint, mixedRecipes, {
      cacheFolder: join(folder, 'model.safetensors', 'no folder'),
    });
    const direct = await createDirectWeights(resolved, 50);
    expect([file.kind, memory.kind, direct.kind]).toEqual(['file', 'memory', 'checkpoint']);
    for (const store of [file, memory, direct]) expect(await readStore(store)).toEqual(expected);
  });

  it('widens halves, and gives arrays that nobody else has', async () => {
    const data = Float32Array.of(0.5, -2);
    const values = await readStore({
      kind: 'memory',
      tensors: new Map([
        ['half', { shape: [2], data: encodeHalves(data, 'float16'), dtype: 'float16' }],
        ['brain', { shape: [2], data: encodeHalves(data, 'bfloat16'), dtype: 'bfloat16' }],
        ['single', { shape: [2], data }],
      ]),
    });
    for (const { data: read } of values.values()) expect(read).toEqual(data);
    values.get('single')!.data[0] = 7;
    expect(data[0]).toBe(0.5);
  });
});

describe('readParameters', () => {
  it.each(drafterVariants.filter(({ name }) => !name.includes('shards')))(
    "gives all of $name, and nothing of the target's",
    async (variant) => {
      const { target, drafter } = await models.load(variant.write(models.freshFolder(), tiny));
      const values = await readParameters(drafter);
      const count = [...values.values()].reduce((sum, { data }) => sum + data.length, 0);
      expect(count).toBe(drafter.parameterCount);
      expect([...values.keys()].filter((name) => target.weights.tensors.has(name))).toEqual([]);
    },
  );

  it('refuses a drafter without weights', async () => {
    const { drafter } = await models.load('ngram:1,3');
    await expect(readParameters(drafter)).rejects.toThrow(/has no weights/);
  });
});
