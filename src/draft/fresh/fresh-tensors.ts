import { readFloat32 } from '../../checkpoint/read-tensor.js';
import { bytesPerElement, type StoredTensor } from '../../checkpoint/stored-tensor.js';
import { floatSource, type TensorSource } from '../../checkpoint/tensor-source.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import { copyFileSync } from '../../core/durable-files.js';
import { createRandom, type Random } from '../../core/random.js';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describingNames } from '../../checkpoint/checkpoint-folder.js';
import { writeSafetensors } from '../../checkpoint/safetensors/write-safetensors.js';
import { explainWriting, writeWholeFile, writeWholeFolder } from '../../checkpoint/written-folder.js';

export type Start = 'zeros' | 'ones' | RandomValues | CopiedRows | FoldedColumns;

export interface RandomValues {
  readonly deviation: number;
}

export interface CopiedRows {
  readonly from: StoredTensor; // [row, column]
  readonly rows?: Int32Array | undefined;
}

/**
 * A table of the target at another width: each column is added, with a random sign, to one of the new columns. Inner
 * products of rows stay the same on average, and exactly at the target's width or above.
 */
export interface FoldedColumns {
  readonly folded: StoredTensor; // [row, column]
}

/**
 * Each tensor has its own random stream.
 * @param startOf by the tensor's name; by default norms start at 1, biases at 0, and the rest is random
 */
export function makeFresh(
  { seed, deviation }: RandomValues & { readonly seed: number | string },
  recipes: readonly WeightRecipe[],
  startOf: (name: string) => Start | undefined = () => undefined,
): TensorSource[] {
  const defaultStart = (name: string): Start => {
    if (name.endsWith('.bias')) return 'zeros';
    return name.endsWith('norm.weight') ? 'ones' : { deviation };
  };
  return recipes
    .flatMap(({ parts }) => parts)
    .map(({ tensor: name, shape }) =>
      floatSource({ name, shape, dtype: 'F32' }, () => {
        const random = createRandom(seed, 'fresh weights', name);
        const start = startOf(name) ?? defaultStart(name);
        if (typeof start === 'object' && 'folded' in start) return foldColumns(start, shape, random);
        if (typeof start === 'object' && 'from' in start) return readRows(start);
        const values = new Float32Array(shape.reduce((product, size) => product * size, 1));
        if (start === 'ones') values.fill(1);
        else if (start !== 'zeros') fillNormal(values, start.deviation, random);
        return values;
      }),
    );
}

export async function readRows({ from, rows }: CopiedRows): Promise<Float32Array> {
  if (rows === undefined) return readFloat32(from);
  const [, width = 1] = from.shape;
  const values = new Float32Array(rows.length * width);
  const sizeBytes = width * bytesPerElement(from.dtype);
  // Row by row if contiguous: the whole table can be far larger.
  const whole = from.strides === undefined ? undefined : await readFloat32(from);
  for (const [place, row] of rows.entries()) {
    const one = { ...from, shape: [1, width], offsetBytes: from.offsetBytes + row * sizeBytes, sizeBytes };
    const copied = whole?.subarray(row * width, (row + 1) * width) ?? (await readFloat32(one));
    values.set(copied, place * width);
  }
  return values;
}

async function foldColumns(
  { folded }: FoldedColumns,
  [rows = 1, width = 1]: readonly number[],
  random: Random,
): Promise<Float32Array> {
  const [, columns = 1] = folded.shape;
  const given = await readFloat32(folded);
  const places = Int32Array.from({ length: columns }, (_, column) => column % width);
  random.shuffle(places);
  const signs = places.map(() => (random.next() < 0.5 ? -1 : 1));
  const values = new Float32Array(rows * width);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      values[row * width + places[column]!]! += signs[column]! * given[row * columns + column]!;
    }
  }
  return values;
}

/** Box-Muller. */
function fillNormal(values: Float32Array, deviation: number, random: Random): void {
  for (let index = 0; index < values.length; index += 2) {
    const radius = deviation * Math.sqrt(-2 * Math.log(1 - random.next()));
    const angle = 2 * Math.PI * random.next();
    values[index] = radius * Math.cos(angle);
    if (index + 1 < values.length) values[index + 1] = radius * Math.sin(angle);
  }
}

export interface NewCheckpoint {
  readonly config: Readonly<Record<string, unknown>>;
  /** Default: model.safetensors. */
  readonly file?: string | undefined;
  readonly tensors: readonly TensorSource[];
  /** A folder whose tokenizer and other describing files are copied, as far as it has them. */
  readonly describedBy?: string | undefined;
}

export async function writeCheckpoint(
  folder: string,
  { config, file = 'model.safetensors', tensors, describedBy }: NewCheckpoint,
): Promise<void> {
  await writeWholeFolder(folder, async (fresh) => {
    await writeSafetensors(join(fresh, file), tensors);
    if (describedBy !== undefined) await copyDescription(describedBy, fresh);
    const text = `${JSON.stringify(config, undefined, 2)}\n`;
    await writeWholeFile(join(fresh, 'config.json'), (append) => append(Buffer.from(text)));
  });
}

async function copyDescription(folder: string, to: string): Promise<void> {
  const names = describingNames.filter((name) => name !== 'config.json' && existsSync(join(folder, name)));
  for (const name of names) {
    const path = join(to, name);
    await explainWriting(path, () => {
      copyFileSync(join(folder, name), path);
    });
  }
}
