/** Splits a program's weight into the checkpoint's tensors, and joins parts in memory. */
import type { WeightRecipe } from './weight-recipe.js';

export interface PartValues {
  readonly values: Float32Array;
  /** As stored, before transposing. */
  readonly shape: readonly number[];
  readonly isTransposed: boolean;
}

export function joinParts(parts: readonly PartValues[], shape: readonly number[]): Float32Array {
  const [first] = parts;
  if (first !== undefined && parts.length === 1) return straighten(first);
  const width = shape.at(-1) ?? 1;
  const weight = new Float32Array(countValues(shape));
  let firstColumn = 0;
  for (const part of parts) {
    const values = straighten(part);
    const columns = widthOf(part);
    for (let row = 0; row * columns < values.length; row++)
      weight.set(values.subarray(row * columns, (row + 1) * columns), row * width + firstColumn);
    firstColumn += columns;
  }
  return weight;
}

export function cutPart(weight: Float32Array, { shape, parts }: WeightRecipe, place: number): Float32Array {
  const part = parts[place]!;
  const width = shape.at(-1) ?? 1;
  const columnsOf = ({ shape, transpose = false }: typeof part): number =>
    widthOf({ shape, isTransposed: transpose });
  const firstColumn = parts.slice(0, place).reduce((sum, earlier) => sum + columnsOf(earlier), 0);
  const columns = columnsOf(part);
  const cut = parts.length === 1 ? weight : cutColumns(weight, width, firstColumn, columns);
  return part.transpose === true ? transpose(cut, cut.length / columns, columns) : cut;
}

function cutColumns(weight: Float32Array, width: number, first: number, columns: number): Float32Array {
  const rows = weight.length / width;
  const cut = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row++)
    cut.set(weight.subarray(row * width + first, row * width + first + columns), row * columns);
  return cut;
}

function straighten({ values, shape, isTransposed }: PartValues): Float32Array {
  return isTransposed ? transpose(values, shape[0]!, shape[1]!) : values;
}

const widthOf = ({ shape, isTransposed }: Omit<PartValues, 'values'>): number =>
  (isTransposed ? shape[0] : shape.at(-1)) ?? 1;

const countValues = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

/** In square tiles: row by row, every write would touch a new cache line. */
function transpose(values: Float32Array, rows: number, columns: number): Float32Array {
  const tile = 32;
  const turned = new Float32Array(values.length);
  for (let rowTile = 0; rowTile < rows; rowTile += tile) {
    const rowEnd = Math.min(rowTile + tile, rows);
    for (let columnTile = 0; columnTile < columns; columnTile += tile) {
      const columnEnd = Math.min(columnTile + tile, columns);
      for (let column = columnTile; column < columnEnd; column++)
        for (let row = rowTile; row < rowEnd; row++)
          turned[column * rows + row] = values[row * columns + column]!;
    }
  }
  return turned;
}
