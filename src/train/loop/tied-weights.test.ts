import { expect, it } from 'vitest';
import { findTrainable } from '../../draft/systems.js';
import { tieWeights } from './parameters.js';

const values = (data: Readonly<Record<string, readonly number[]>>) =>
  new Map(
    Object.entries(data).map(([name, numbers]) => [
      name,
      { shape: [numbers.length], data: Float32Array.from(numbers) },
    ]),
  );

it.each([
  ['medusa', (block: number) => `medusa.0.${block}`],
  ['hydra', (block: number) => `hydra.0.block${block}`],
])('ties the equal blocks of one head of %s, and no others', (system, block) => {
  const ties = tieWeights(
    values({
      [`${block(0)}.weight`]: [1, 2],
      [`${block(0)}.bias`]: [3],
      [`${block(1)}.weight`]: [1, 2],
      [`${block(1)}.bias`]: [4],
      [`${block(2)}.weight`]: [6, 2],
      [`${system}.1.0.weight`]: [1, 2],
      [`${system}.0.lm_head.weight`]: [1, 2],
    }),
    findTrainable(system)!.training.repeatedBlocks,
  );
  const tied = [...ties].filter(([name, to]) => name !== to);
  expect(tied).toEqual([[`${block(1)}.weight`, `${block(0)}.weight`]]);
  expect(ties.size).toBe(7);
});
