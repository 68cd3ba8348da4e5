/** Weights that nothing was learnt into yet. */
import { readFloat32 } from '../checkpoint/read-tensor.js';
import type { StoredTensor } from '../checkpoint/stored-tensor.js';
import { bytesPerElement } from '../checkpoint/stored-tensor.js';
import type { TensorSource } from '../checkpoint/tensor-source.js';
import { floatSource } from '../checkpoint/tensor-source.js';
import type { WeightRecipe } from '../checkpoint/weight-recipe.js';
import type { Random } from '../core/random.js';
import { createRandom } from '../core/random.js';

export interface FreshTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly start: 'normal' | 'zeros' | 'ones' | CopiedRows;
}

export interface CopiedRows {
  readonly from: StoredTensor; // [row, column]
  /** All unless given, in this order. */
  readonly rows?: Int32Array | undefined;
}

export interface FreshOptions {
  readonly seed: number | string;
  readonly deviation: number;
}

/** Each tensor has a random stream of its own: one more head changes no other. */
export function makeFresh(
  tensors: readonly FreshTensor[],
  { seed, deviation }: FreshOptions,
): TensorSource[] {
  return tensors.map(({ name, shape, start }) =>
    floatSource({ name, shape, dtype: 'F32' }, () => {
      if (typeof start === 'object') return copyRows(start);
      const values = new Float32Array(shape.reduce((product, size) => product * size, 1));
      if (start === 'ones') values.fill(1);
      if (start === 'normal') fillNormal(values, deviation, createRandom(seed, 'fresh weights', name));
      return values;
    }),
  );
}

/** What recipes read: norms begin at 1 and biases at 0, everything else is random. */
export function freshOf(recipes: readonly WeightRecipe[]): FreshTensor[] {
  return recipes.flatMap(({ parts }) =>
    parts.map(({ tensor, shape }) => {
      const start = tensor.endsWith('.bias') ? 'zeros' : tensor.endsWith('norm.weight') ? 'ones' : 'normal';
      return { name: tensor, shape, start } satisfies FreshTensor;
    }),
  );
}

async function copyRows({ from, rows }: CopiedRows): Promise<Float32Array> {
  if (rows === undefined) return readFloat32(from);
  const [, width = 1] = from.shape;
  const values = new Float32Array(rows.length * width);
  // Row by row where rows lie together: the whole table can be far larger than what is taken of it.
  const whole = from.strides === undefined ? undefined : await readFloat32(from);
  for (const [place, row] of rows.entries()) {
    const copied = whole?.subarray(row * width, (row + 1) * width) ?? (await readFloat32(rowOf(from, row)));
    values.set(copied, place * width);
  }
  return values;
}

function rowOf(tensor: StoredTensor, row: number): StoredTensor {
  const [, width = 1] = tensor.shape;
  const sizeBytes = width * bytesPerElement(tensor.dtype);
  return { ...tensor, shape: [1, width], offsetBytes: tensor.offsetBytes + row * sizeBytes, sizeBytes };
}

/** Box and Muller's pairs. */
function fillNormal(values: Float32Array, deviation: number, random: Random): void {
  for (let index = 0; index < values.length; index += 2) {
    const radius = deviation * Math.sqrt(-2 * Math.log(1 - random.next()));
    const angle = 2 * Math.PI * random.next();
    values[index] = radius * Math.cos(angle);
    if (index + 1 < values.length) values[index + 1] = radius * Math.sin(angle);
  }
}
