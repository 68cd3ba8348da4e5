/** Tensors in double precision, one index at a time: slow but simple. */
import { MistletoeError } from '../../src/core/errors.js';
import type { Dimension, DimensionBindings, Shape } from '../../src/graph/dimension.js';
import { evaluateDimension, formatDimension } from '../../src/graph/dimension.js';

export interface DenseValue {
  readonly shape: readonly number[];
  readonly data: Float64Array; // row-major; integers and booleans are kept as numbers
}

export type Index = readonly number[];

export function countValues(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

export function resolveDimension(dimension: Dimension, bindings: DimensionBindings): number {
  const size = evaluateDimension(dimension, bindings);
  if (size !== undefined) return size;
  throw new MistletoeError(
    'shape',
    `The graph needs the length "${formatDimension(dimension)}", which no input has as a dimension of its own.`,
  );
}

export function resolveShape(shape: Shape, bindings: DimensionBindings): readonly number[] {
  return shape.map((dimension) => resolveDimension(dimension, bindings));
}

/** In row-major order. The visitor's array is reused. */
export function visitIndices(
  shape: readonly number[],
  visit: (index: Index, position: number) => void,
): void {
  const total = countValues(shape);
  const index = shape.map(() => 0);
  for (let position = 0; position < total; position++) {
    visit(index, position);
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      index[axis]! += 1;
      if (index[axis]! < shape[axis]!) break;
      index[axis] = 0;
    }
  }
}

export function fill(shape: readonly number[], valueAt: (index: Index) => number): Float64Array {
  const data = new Float64Array(countValues(shape));
  visitIndices(shape, (index, position) => {
    data[position] = valueAt(index);
  });
  return data;
}

export function positionOf(shape: readonly number[], index: Index): number {
  let position = 0;
  for (let axis = 0; axis < shape.length; axis++) position = position * shape[axis]! + index[axis]!;
  return position;
}

export function read({ shape, data }: DenseValue, index: Index): number {
  return data[positionOf(shape, index)]!;
}

/** Broadcasts along axes of length 1 and missing leading axes. */
export function readRepeated({ shape, data }: DenseValue, index: Index): number {
  const extra = index.length - shape.length;
  const own = shape.map((size, axis) => (size === 1 ? 0 : index[axis + extra]!));
  return data[positionOf(shape, own)]!;
}

export function mapRows(
  x: DenseValue,
  apply: (row: Float64Array, at: number) => ArrayLike<number>,
): Float64Array {
  const width = x.shape.at(-1)!;
  const rows = countValues(x.shape.slice(0, -1));
  const results = Array.from({ length: rows }, (_, at) =>
    apply(x.data.subarray(at * width, (at + 1) * width), at),
  );
  return Float64Array.from(results.flatMap((result) => Array.from(result)));
}
