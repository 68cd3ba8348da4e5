/** Weights that are made in every way there is from tensors of every type that devices are given. */
import type { WeightRecipe } from '../../../src/checkpoint/weight-recipe.js';
import type { WritableTensor, WritableTensors } from './encode-values.js';

const numbers = (dtype: WritableTensor['dtype'], shape: readonly number[], step: number): WritableTensor => {
  const length = shape.reduce((product, size) => product * size, 1);
  return { dtype, shape, values: Array.from({ length }, (_, index) => (index - length / 3) * step) };
};

/** Steps that no half type holds exactly, next to some that it does. */
export const mixedTensors: WritableTensors = {
  q: numbers('F32', [4, 6], 0.1),
  k: numbers('BF16', [2, 6], 0.5),
  v: numbers('F16', [3, 6], 0.3),
  wide: numbers('BF16', [6, 5], 0.7),
  double: numbers('F64', [6, 2], 0.01),
  cube: numbers('F16', [2, 3, 5], 1.1),
  bias: numbers('BF16', [7], 1.3),
  shift: numbers('F32', [3], 0.9),
  scale: numbers('F16', [], 1),
};

const part = (tensor: string, transpose = false): WeightRecipe['parts'][number] => ({
  tensor,
  shape: mixedTensors[tensor]!.shape,
  transpose,
});

export const mixedRecipes: readonly WeightRecipe[] = [
  ...Object.entries(mixedTensors).map(([name, { shape }]) => ({ name, shape, parts: [part(name)] })),
  ...['q', 'k', 'v', 'double'].map((name) => ({
    name: `${name} transposed`,
    shape: mixedTensors[name]!.shape.toReversed(),
    parts: [part(name, true)],
  })),
  { name: 'qkv', shape: [6, 9], parts: [part('q', true), part('k', true), part('v', true)] },
  { name: 'straight and turned', shape: [6, 11], parts: [part('wide'), part('q', true), part('double')] },
  { name: 'cubes', shape: [2, 3, 10], parts: [part('cube'), part('cube')] },
  { name: 'vectors', shape: [10], parts: [part('shift'), part('bias')] },
];
