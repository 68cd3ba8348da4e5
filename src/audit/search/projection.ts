/**
 * Null-space projection: removes the directions that move the target's own distribution from the degradation
 * gradient. `direction` removes lambda times the component along the mean preservation gradient (1 is orthogonality,
 * the paper's 2 reverses the component); `subspace` removes the span of the preservation gradients of all positions.
 */
/**
 * Least squares by the normal equations of unit vectors, with a pivoted Cholesky decomposition in double precision.
 * Inner products cost a fraction of an orthonormal basis; dependent vectors drop out.
 */

/** Smaller squared norms have no direction. */
export const least = 1e-20;

/** Smaller squared rests count as dependent. */
const dependent = 1e-10;

function removeSpan(from: Float32Array, vectors: readonly Float32Array[]): Float32Array {
  const known = vectors.filter((vector) => dot(vector, vector) >= least);
  const lengths = known.map((vector) => Math.sqrt(dot(vector, vector)));
  const products = known.map((left, row) =>
    known.slice(0, row + 1).map((right, column) => dot(left, right) / (lengths[row]! * lengths[column]!)),
  );
  const factor = factorise(
    known.length,
    (row, column) => products[Math.max(row, column)]![Math.min(row, column)]!,
  );
  // A second round removes rounding errors of the first.
  let rest = from;
  for (let round = 0; round < 2; round++) {
    const along = factor.order.map((index) => dot(known[index]!, rest) / lengths[index]!);
    const weights = solve(factor.lower, along);
    const taken = new Float64Array(rest.length);
    weights.forEach((weight, place) => {
      const index = factor.order[place]!;
      addScaled(taken, known[index]!, weight / lengths[index]!);
    });
    rest = rest.map((value, index) => value - taken[index]!);
  }
  return rest;
}

interface Factor {
  /** Independent vectors, in the order taken. */
  readonly order: readonly number[];
  /** Row i has i + 1 entries. */
  readonly lower: readonly (readonly number[])[];
}

function factorise(count: number, product: (row: number, column: number) => number): Factor {
  const order: number[] = [];
  const rows = Array.from({ length: count }, (): number[] => []);
  const rests = Array.from({ length: count }, (_, index) => product(index, index));
  for (;;) {
    const pivot = rests.reduce((best, rest, index) => (rest > (rests[best] ?? 0) ? index : best), -1);
    if (pivot < 0 || rests[pivot]! <= dependent) break;
    const diagonal = Math.sqrt(rests[pivot]!);
    const pivotRow = rows[pivot]!;
    for (const [index, row] of rows.entries()) {
      if (order.includes(index) || index === pivot) continue;
      const known = pivotRow.reduce((total, value, column) => total + value * row[column]!, 0);
      const entry = (product(index, pivot) - known) / diagonal;
      row.push(entry);
      rests[index]! -= entry * entry;
    }
    pivotRow.push(diagonal);
    rests[pivot] = 0;
    order.push(pivot);
  }
  return { order, lower: order.map((index) => rows[index]!) };
}

function solve(lower: readonly (readonly number[])[], values: readonly number[]): number[] {
  const forward: number[] = [];
  lower.forEach((row, index) => {
    const known = forward.reduce((total, value, column) => total + value * row[column]!, 0);
    forward.push((values[index]! - known) / row[index]!);
  });
  const solution = [...forward];
  for (let index = lower.length - 1; index >= 0; index--) {
    for (let later = index + 1; later < lower.length; later++)
      solution[index]! -= lower[later]![index]! * solution[later]!;
    solution[index]! /= lower[index]![index]!;
  }
  return solution;
}

function dot(left: Float32Array, right: Float32Array): number {
  let total = 0;
  for (let index = 0; index < left.length; index++) total += left[index]! * right[index]!;
  return total;
}

function addScaled(to: Float64Array, direction: Float32Array, scale: number): void {
  for (let index = 0; index < to.length; index++) to[index]! += scale * direction[index]!;
}

export type Projection =
  | { readonly kind: 'none' }
  | { readonly kind: 'direction'; readonly weight: number }
  | { readonly kind: 'subspace' };

export const projectionKinds = ['none', 'direction', 'subspace'] as const;

export const createProjection = (kind: (typeof projectionKinds)[number], weight: number): Projection =>
  kind === 'direction' ? { kind, weight } : { kind };

export function formatProjection(projection: Projection): string {
  return projection.kind === 'direction' ? `direction(${projection.weight})` : projection.kind;
}

/** All gradients are [suffix, vocabulary], flat. `direction` needs only their mean. */
export function projectGradient(
  degradation: Float32Array,
  preservation: readonly Float32Array[],
  projection: Projection,
): Float32Array {
  if (projection.kind === 'none') return degradation;
  if (projection.kind === 'direction') {
    return preservation.reduce((rest, gradient) => {
      const along = dot(gradient, gradient);
      return along < least
        ? rest
        : subtractScaled(rest, gradient, (projection.weight * dot(rest, gradient)) / along);
    }, degradation);
  }
  return removeSpan(degradation, preservation);
}

export function cosine(left: Float32Array, right: Float32Array): number {
  const lengths = Math.sqrt(dot(left, left) * dot(right, right));
  return lengths < least ? 0 : dot(left, right) / lengths;
}

function subtractScaled(from: Float32Array, direction: Float32Array, scale: number): Float32Array {
  return from.map((value, index) => value - scale * direction[index]!);
}
