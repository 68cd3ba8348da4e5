/**
 * A dimension is a number or a polynomial with integer coefficients over named symbols ("past + 4*new"). Polynomials
 * are kept in one normal form, so two dimensions are equal exactly when their keys are: shapes that are only known at
 * run time are still checked when the graph is built.
 */
import { MistletoeError } from '../core/errors.js';

export type Dimension = number | SymbolicDimension;
export type Shape = readonly Dimension[];

export interface SymbolicDimension {
  readonly key: string;
  readonly terms: readonly DimensionTerm[];
}

export interface DimensionTerm {
  readonly coefficient: number;
  readonly symbols: readonly string[]; // sorted; empty for the constant term
}

export function symbol(name: string): SymbolicDimension {
  // Keys are compared as text: a name such as "2" or "a + b" would pass for another dimension.
  if (!/^[A-Za-z_]\w*$/.test(name)) {
    throw new MistletoeError('shape', `A symbolic dimension is named "${name}", expected a plain word.`);
  }
  return { key: name, terms: [{ coefficient: 1, symbols: [name] }] };
}

/** The symbol's name if the dimension is one symbol and nothing else. */
export function bareSymbol(dimension: Dimension): string | undefined {
  if (typeof dimension === 'number' || dimension.terms.length !== 1) return undefined;
  const { coefficient, symbols } = dimension.terms[0]!;
  return coefficient === 1 && symbols.length === 1 ? symbols[0] : undefined;
}

function termsOf(dimension: Dimension): readonly DimensionTerm[] {
  return typeof dimension === 'number' ? [{ coefficient: dimension, symbols: [] }] : dimension.terms;
}

function normalise(terms: readonly DimensionTerm[]): Dimension {
  const merged = new Map<string, DimensionTerm>();
  for (const term of terms) {
    const key = term.symbols.join('*');
    const coefficient = (merged.get(key)?.coefficient ?? 0) + term.coefficient;
    merged.set(key, { coefficient, symbols: term.symbols });
  }
  const kept = [...merged.entries()]
    .filter(([, term]) => term.coefficient !== 0)
    .sort(([left], [right]) => (left < right ? 1 : -1));
  if (kept.length === 0) return 0;
  const [first] = kept;
  if (kept.length === 1 && first![0] === '') return first![1].coefficient;
  const key = kept
    .map(([name, { coefficient }]) =>
      name === '' ? String(coefficient) : coefficient === 1 ? name : `${coefficient}*${name}`,
    )
    .join(' + ');
  return { key, terms: kept.map(([, term]) => term) };
}

export function addDimensions(left: Dimension, right: Dimension): Dimension {
  if (typeof left === 'number' && typeof right === 'number') return left + right;
  return normalise([...termsOf(left), ...termsOf(right)]);
}

export function subtractDimensions(left: Dimension, right: Dimension): Dimension {
  return addDimensions(left, multiplyDimensions(right, -1));
}

export function multiplyDimensions(left: Dimension, right: Dimension): Dimension {
  if (typeof left === 'number' && typeof right === 'number') return left * right + 0; // never -0
  if (left === 1) return right;
  if (right === 1) return left;
  return normalise(
    termsOf(left).flatMap((a) =>
      termsOf(right).map((b) => ({
        coefficient: a.coefficient * b.coefficient,
        symbols: [...a.symbols, ...b.symbols].sort(),
      })),
    ),
  );
}

/** By 1 or a symbol; undefined if the symbol is not a factor. */
export function divideDimension(dimension: Dimension, divisor: Dimension): Dimension | undefined {
  if (divisor === 1) return dimension;
  const name = bareSymbol(divisor);
  const terms = termsOf(dimension);
  if (name === undefined || !terms.every(({ symbols }) => symbols.includes(name))) return undefined;
  return normalise(
    terms.map(({ coefficient, symbols }) => ({
      coefficient,
      symbols: symbols.toSpliced(symbols.indexOf(name), 1),
    })),
  );
}

/** Whether a dimension is divided by the factor, whatever its symbols stand for. */
export function isMultiple(dimension: Dimension, factor: number): boolean {
  return termsOf(dimension).every(({ coefficient }) => coefficient % factor === 0);
}

export function countElements(shape: Shape): Dimension {
  return shape.reduce<Dimension>(multiplyDimensions, 1);
}

export function formatDimension(dimension: Dimension): string {
  return typeof dimension === 'number' ? String(dimension) : dimension.key;
}

export function formatShape(shape: Shape): string {
  return `[${shape.map(formatDimension).join(', ')}]`;
}

export function equalDimensions(left: Dimension, right: Dimension): boolean {
  return typeof left === 'number' || typeof right === 'number' ? left === right : left.key === right.key;
}

export function equalShapes(left: Shape, right: Shape): boolean {
  return (
    left.length === right.length && left.every((dimension, axis) => equalDimensions(dimension, right[axis]!))
  );
}

export type DimensionBindings = ReadonlyMap<string, number>;

/** The number a dimension stands for once every symbol is bound; undefined while one is not. */
export function evaluateDimension(dimension: Dimension, bindings: DimensionBindings): number | undefined {
  let total = 0;
  for (const { coefficient, symbols } of termsOf(dimension)) {
    let product = coefficient;
    for (const name of symbols) {
      const value = bindings.get(name);
      if (value === undefined) return undefined;
      product *= value;
    }
    total += product;
  }
  return total;
}
