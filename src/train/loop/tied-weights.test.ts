import { expect, it } from 'vitest';
import { tieWeights } from './parameters.js';

const values = (data: Readonly<Record<string, readonly number[]>>) =>
  new Map(
    Object.entries(data).map(([name, numbers]) => [
      name,
      { shape: [numbers.length], data: Float32Array.from(numbers) },
    ]),
  );

it('ties the equal blocks of one head, and no others', () => {
  const ties = tieWeights(
    values({
      'medusa.0.0.weight': [1, 2],
      'medusa.0.0.bias': [3],
      'medusa.0.1.weight': [1, 2],
      'medusa.0.1.bias': [4],
      'medusa.1.0.weight': [1, 2],
      'hydra.0.block0.weight': [5],
      'hydra.0.block1.weight': [5],
      'hydra.0.block2.weight': [6],
      'medusa.0.lm_head.weight': [1, 2],
    }),
  );
  const tied = [...ties].filter(([name, to]) => name !== to);
  expect(tied).toEqual([
    ['medusa.0.1.weight', 'medusa.0.0.weight'],
    ['hydra.0.block1.weight', 'hydra.0.block0.weight'],
  ]);
  expect(ties.size).toBe(9);
});
