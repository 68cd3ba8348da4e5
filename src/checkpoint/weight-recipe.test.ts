import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openCheckpoint } from './open-checkpoint.js';
import type { Checkpoint } from './stored-tensor.js';
import { pushAll } from '../core/vector.js';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { writeSafetensors } from '../../test/support/checkpoint/write-safetensors.js';
import { assembleWeight, resolveRecipes, streamWeight } from './weight-recipe.js';
import type { WeightRecipe } from './weight-recipe.js';

const folder = makeTemporaryFolder();
afterAll(folder.remove);
let checkpoint: Checkpoint;
const large = Float32Array.from({ length: 1300 * 901 }, (_, index) => index);

beforeAll(async () => {
  writeSafetensors(join(folder.path, 'model.safetensors'), {
    'layers.0.q.weight': { dtype: 'F32', shape: [2, 3], values: [1, 2, 3, 4, 5, 6] },
    'layers.0.k.weight': { dtype: 'F16', shape: [1, 3], values: [7, 8, 9] },
    'layers.0.ids': { dtype: 'I64', shape: [2], values: [1, 2] },
    large: { dtype: 'F32', shape: [1300, 901], values: large },
  });
  checkpoint = await openCheckpoint(folder.path);
});

async function assemble(recipe: WeightRecipe): Promise<number[]> {
  const [resolved] = resolveRecipes(checkpoint, [recipe]);
  const streamed: number[] = [];
  for await (const values of streamWeight(resolved!)) pushAll(streamed, values);
  expect(streamed).toEqual(Array.from(await assembleWeight(resolved!)));
  return streamed;
}

const q = { tensor: 'layers.0.q.weight', shape: [2, 3] };
const k = { tensor: 'layers.0.k.weight', shape: [1, 3] };

describe('recipes', () => {
  it('copy, transpose and join along the last axis', async () => {
    expect(await assemble({ name: 'q', shape: [2, 3], parts: [q] })).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await assemble({ name: 'q', shape: [3, 2], parts: [{ ...q, transpose: true }] })).toEqual([
      1, 4, 2, 5, 3, 6,
    ]);
    const both = [q, k].map((part) => ({ ...part, transpose: true }));
    expect(await assemble({ name: 'qk', shape: [3, 3], parts: both })).toEqual([1, 4, 7, 2, 5, 8, 3, 6, 9]);
    expect(await assemble({ name: 'qq', shape: [2, 6], parts: [q, q] })).toEqual([
      1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6,
    ]);
  });

  it('transpose what does not divide into tiles and blocks', async () => {
    const part = { tensor: 'large', shape: [1300, 901], transpose: true };
    const [resolved] = resolveRecipes(checkpoint, [{ name: 'l', shape: [901, 2600], parts: [part, part] }]);
    const weight = await assembleWeight(resolved!);
    let wrong = 0;
    weight.forEach((value, index) => {
      const column = index % 2600;
      if (value !== large[(column % 1300) * 901 + Math.floor(index / 2600)]) wrong += 1;
    });
    expect(wrong).toBe(0);
  });

  it.each<[string, WeightRecipe, RegExp]>([
    [
      'a missing tensor, with near names',
      { name: 'x', shape: [2, 3], parts: [{ ...q, tensor: 'layers.0.qq.weight' }] },
      /no tensor "layers.0.qq.weight"; near names: "layers.0.q.weight", "layers.0.k.weight"/,
    ],
    [
      'a missing prefix',
      { name: 'x', shape: [2, 3], parts: [{ ...q, tensor: 'model.layers.0.q.weight' }] },
      /near names: "layers.0.q.weight"/,
    ],
    [
      'a wrong shape',
      { name: 'x', shape: [3, 2], parts: [{ ...q, shape: [3, 2] }] },
      /"layers.0.q.weight" .* has shape \[2, 3\], expected \[3, 2\]/,
    ],
    [
      'integers',
      { name: 'x', shape: [2], parts: [{ tensor: 'layers.0.ids', shape: [2] }] },
      /"layers.0.ids" .* has dtype I64, expected a float type/,
    ],
    [
      'parts that do not make the shape',
      { name: 'x', shape: [2, 4], parts: [q] },
      /weight "x" has parts of \[2, 3\], expected \[2, 4\]/,
    ],
    [
      'more elements than can be counted, without calling it a fault of the program',
      { name: 'x', shape: [2 ** 53 - 1, 3], parts: [{ ...q, shape: [2 ** 53 - 1, 3] }] },
      /^The weight "x" would have the size \[9007199254740991, 3\]\.$/,
    ],
    ['parts that do not join', { name: 'x', shape: [3, 3], parts: [q, k] }, /joins \[2, 3\] and \[1, 3\]/],
    ['no parts', { name: 'x', shape: [], parts: [] }, /has no parts/],
    [
      'a transposed vector',
      { name: 'x', shape: [2], parts: [{ tensor: 'v', shape: [2], transpose: true }] },
      /expected two axes/,
    ],
  ])('refuse %s', (_, recipe, message) => {
    expect(() => resolveRecipes(checkpoint, [recipe])).toThrow(message);
  });

  it('refuse one name for two weights', () => {
    const recipe = { name: 'q', shape: [2, 3], parts: [q] };
    expect(() => resolveRecipes(checkpoint, [recipe, recipe])).toThrow(/"q" is asked for twice/);
  });
});
