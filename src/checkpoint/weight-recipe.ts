/**
 * How a program's weight is made from the checkpoint's tensors: parts are read as float32, transposed if needed, and
 * joined along the last axis (q, k and v become one matrix, for example).
 */
import { MistletoeError } from '../core/errors.js';
import type { HalfType } from '../core/half-floats.js';
import type { Checkpoint, StoredTensor } from './stored-tensor.js';
import { countElements, findNearNames, formatShape, isFloatDType, quote, refuse } from './stored-tensor.js';
import { readFloat32, readHalfRows, readRows, type RowBlock } from './read-tensor.js';

export interface WeightRecipe {
  readonly name: string;
  readonly shape: readonly number[];
  readonly parts: readonly WeightPart[];
}

export interface WeightPart {
  readonly tensor: string;
  /** As stored in the checkpoint, before transposing. */
  readonly shape: readonly number[];
  readonly transpose?: boolean | undefined;
}

export interface ResolvedRecipe {
  readonly name: string;
  readonly shape: readonly number[];
  readonly parts: readonly ResolvedPart[];
  /** The type it is kept in, if not float32. All parts are stored in it. */
  readonly dtype?: HalfType | undefined;
}

export interface ResolvedPart {
  readonly tensor: StoredTensor;
  readonly transpose: boolean;
}

export function listRead(recipes: readonly WeightRecipe[]): ReadonlySet<string> {
  return new Set(recipes.flatMap(({ parts }) => parts.map(({ tensor }) => tensor)));
}

/** `nearNames`: whether to search for the names that missing ones were meant to be, which is slow for many. */
export function resolveRecipes(
  checkpoint: Checkpoint,
  recipes: readonly WeightRecipe[],
  nearNames = true,
): readonly ResolvedRecipe[] {
  const names = new Set<string>();
  return recipes.map((recipe) => {
    if (names.has(recipe.name)) throw misfit(recipe, 'is asked for twice');
    names.add(recipe.name);
    checkJoin(recipe);
    const parts = recipe.parts.map((part) => ({
      tensor: resolvePart(checkpoint, part, nearNames),
      transpose: part.transpose ?? false,
    }));
    return { name: recipe.name, shape: recipe.shape, parts };
  });
}

/** Keeps matrices in 16 bits if all their parts are stored so. Vectors are small and become float32. */
export function keepHalves(recipes: readonly ResolvedRecipe[]): readonly ResolvedRecipe[] {
  return recipes.map((recipe) => {
    const [first, ...others] = recipe.parts.map(({ tensor }) => tensor.dtype);
    const dtype = first === 'F16' ? 'float16' : first === 'BF16' ? 'bfloat16' : undefined;
    const isKept = dtype !== undefined && recipe.shape.length > 1 && others.every((other) => other === first);
    return isKept ? { ...recipe, dtype } : recipe;
  });
}

/** The weight's values in order, in pieces if possible. A piece is valid until the next is requested. */
export async function* streamWeight(recipe: ResolvedRecipe): AsyncGenerator<Float32Array | Uint16Array> {
  const { dtype, parts, shape } = recipe;
  const [first] = parts;
  if (first !== undefined && parts.length === 1 && !first.transpose) {
    const rows = dtype === undefined ? readRows(first.tensor) : readHalfRows(first.tensor);
    for await (const { values } of rows) yield values;
  } else if (dtype === undefined) {
    yield await assembleWeight(recipe);
  } else {
    yield await joinRows(parts.map(toRows(readHalfRows)), shape, new Uint16Array(countElements(shape) ?? 0));
  }
}

export async function assembleWeight({ parts, shape }: ResolvedRecipe): Promise<Float32Array> {
  const [first] = parts;
  if (first !== undefined && parts.length === 1 && !first.transpose) return readFloat32(first.tensor);
  return joinRows(parts.map(toRows(readRows)), shape, new Float32Array(countElements(shape) ?? 0));
}

const toRows =
  <Values>(read: (tensor: StoredTensor) => AsyncGenerator<RowBlock<Values>>) =>
  ({ tensor, transpose }: ResolvedPart): PartRows<Values> => ({
    shape: tensor.shape,
    isTransposed: transpose,
    rows: read(tensor),
  });

export interface PartRows<Values = Float32Array> {
  /** As stored, before transposing. */
  readonly shape: readonly number[];
  readonly isTransposed: boolean;
  readonly rows: AsyncIterable<RowBlock<Values>> | Iterable<RowBlock<Values>>;
}

/** Writes the parts side by side into `weight`. */
export async function joinRows<Values extends Float32Array | Uint16Array>(
  parts: readonly PartRows<Values>[],
  shape: readonly number[],
  weight: Values,
): Promise<Values> {
  const width = shape.at(-1) ?? 1;
  let firstColumn = 0;
  for (const { shape: own, isTransposed, rows } of parts) {
    const columns = own.at(-1) ?? 1;
    const place = isTransposed ? placeTransposed : placeStraight;
    for await (const block of rows) place({ ...block, columns, weight, width, firstColumn });
    firstColumn += isTransposed ? own[0]! : columns;
  }
  return weight;
}

/** The tensor of one part of a recipe, cut out of the weight. */
export function cutPart(weight: Float32Array, { shape, parts }: WeightRecipe, place: number): Float32Array {
  const part = parts[place]!;
  const width = shape.at(-1) ?? 1;
  const columnsOf = (of: WeightPart): number => (of.transpose === true ? of.shape[0] : of.shape.at(-1)) ?? 1;
  const first = parts.slice(0, place).reduce((sum, earlier) => sum + columnsOf(earlier), 0);
  const columns = columnsOf(part);
  const rows = weight.length / width;
  const cut = parts.length === 1 ? weight : new Float32Array(rows * columns);
  for (let row = 0; cut !== weight && row < rows; row++)
    cut.set(weight.subarray(row * width + first, row * width + first + columns), row * columns);
  if (part.transpose !== true) return cut;
  const turned = new Float32Array(cut.length);
  placeTransposed({ values: cut, firstRow: 0, columns, weight: turned, width: rows, firstColumn: 0 });
  return turned;
}

interface Placement {
  readonly values: Float32Array | Uint16Array; // [rows, columns]
  readonly firstRow: number;
  readonly columns: number;
  readonly weight: Float32Array | Uint16Array; // [rows, width]
  readonly width: number;
  readonly firstColumn: number;
}

function placeStraight({ values, firstRow, columns, weight, width, firstColumn }: Placement): void {
  for (let row = 0; row * columns < values.length; row += 1) {
    const source = values.subarray(row * columns, (row + 1) * columns);
    weight.set(source, (firstRow + row) * width + firstColumn);
  }
}

/** In square tiles: row by row, every write would touch a new cache line. */
function placeTransposed(placement: Placement): void {
  const { values, firstRow, columns, weight, width, firstColumn } = placement;
  const rowCount = values.length / columns;
  const tile = 32;
  for (let rowTile = 0; rowTile < rowCount; rowTile += tile) {
    const rowEnd = Math.min(rowTile + tile, rowCount);
    for (let columnTile = 0; columnTile < columns; columnTile += tile) {
      const columnEnd = Math.min(columnTile + tile, columns);
      for (let column = columnTile; column < columnEnd; column += 1) {
        const target = column * width + firstColumn + firstRow;
        for (let row = rowTile; row < rowEnd; row += 1) {
          weight[target + row] = values[row * columns + column]!;
        }
      }
    }
  }
}

function checkJoin(recipe: WeightRecipe): void {
  const shapes = recipe.parts.map(({ shape, transpose }) => {
    if (transpose !== true) return shape;
    if (shape.length !== 2) throw misfit(recipe, `transposes ${formatShape(shape)}, expected two axes`);
    return shape.toReversed();
  });
  const [first] = shapes;
  if (first === undefined) throw misfit(recipe, 'has no parts');
  let joined = first;
  if (shapes.length > 1) {
    const leading = formatShape(first.slice(0, -1));
    if (shapes.some((shape) => shape.length === 0 || formatShape(shape.slice(0, -1)) !== leading)) {
      throw misfit(
        recipe,
        `joins ${shapes.map(formatShape).join(' and ')}, which differ before the last axis`,
      );
    }
    joined = [...first.slice(0, -1), shapes.reduce((sum, shape) => sum + shape.at(-1)!, 0)];
  }
  if (countElements(recipe.shape) === undefined) {
    const size = formatShape(recipe.shape);
    throw new MistletoeError('checkpoint', `The weight ${quote(recipe.name)} would have the size ${size}.`, {
      hint: 'No machine holds that: correct the sizes in config.json.',
    });
  }
  if (formatShape(joined) !== formatShape(recipe.shape)) {
    throw misfit(recipe, `has parts of ${formatShape(joined)}, expected ${formatShape(recipe.shape)}`);
  }
}

function misfit(recipe: WeightRecipe, fault: string): MistletoeError {
  return new MistletoeError('shape', `the recipe for weight ${quote(recipe.name)} ${fault}`, {
    hint: 'The model description and its weights disagree; this is a fault of the program, please report it.',
  });
}

function resolvePart(checkpoint: Checkpoint, part: WeightPart, nearNames: boolean): StoredTensor {
  const tensor = checkpoint.tensors.get(part.tensor);
  if (tensor === undefined) {
    const near = nearNames ? findNearNames(part.tensor, checkpoint.tensors.keys()) : [];
    throw refuse(
      `${checkpoint.folder} has no tensor ${quote(part.tensor)}` +
        (near.length > 0 ? `; near names: ${near.map(quote).join(', ')}` : ''),
      'Check that the folder holds the architecture its config.json names, and that no shard is missing.',
    );
  }
  if (formatShape(tensor.shape) !== formatShape(part.shape)) {
    throw refuse(
      `tensor ${quote(part.tensor)} of ${checkpoint.folder} has shape ${formatShape(tensor.shape)}, expected ${formatShape(part.shape)}`,
      'config.json and the weights disagree: take both from the same checkpoint.',
    );
  }
  if (!isFloatDType(tensor.dtype)) {
    throw refuse(
      `tensor ${quote(part.tensor)} of ${checkpoint.folder} has dtype ${tensor.dtype}, expected a float type (F32, F16, BF16, F64)`,
      'Quantised and integer weights are not read: use the float16 or bfloat16 checkpoint.',
    );
  }
  return tensor;
}
