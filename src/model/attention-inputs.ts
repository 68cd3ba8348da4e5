/**
 * Run-time inputs of attention: angles of each new row and an additive mask over past and new rows. New rows form a
 * tree: each has a parent among them, or -1 directly after the past, and sees the past, its ancestors and itself
 * (within a sliding window).
 */
import { float32, int32, type NamedValues, type TensorValue } from '../runtime/program.js';
import type { RotaryTable } from './rotary/rotary.js';

/** Far below any score, and finite to avoid NaN. */
export const blocked = -1e30;

/** An input that lanes do not simply place next to each other. */
export interface CombinedInput extends TensorValue {
  readonly combine: 'masks' | 'row-numbers';
}

/** [row, past + row] */
export const maskInput = (mask: Float32Array, shape: readonly [number, number]): CombinedInput => ({
  ...float32(mask, shape),
  combine: 'masks',
});

/** Row numbers of the lane, which become rows of the batch. [selected] */
export const rowNumbers = (rows: Int32Array | readonly number[]): CombinedInput => ({
  ...int32(rows),
  combine: 'row-numbers',
});

export interface NewRows {
  readonly count: number;
  /** Includes the cache's dummy row. */
  readonly pastLength: number;
  /** [row] Absent for a chain. */
  readonly parents?: Int32Array | undefined;
  /** [row] Default: after the past, at the row's depth. */
  readonly positions?: Int32Array | undefined;
  /** Visible positions, including its own; default all. */
  readonly window?: number | undefined;
}

export function attentionInputs(rows: NewRows, rotary: RotaryTable): NamedValues {
  const positions = rows.positions ?? positionsOf(rows);
  const { cosine, sine } = rotary.anglesAt(positions);
  const pairs = cosine.length / rows.count;
  return {
    cosine: float32(cosine, [rows.count, pairs]),
    sine: float32(sine, [rows.count, pairs]),
    mask: maskInput(treeMask({ ...rows, positions }), [rows.count, rows.pastLength + rows.count]),
  };
}

function positionsOf({
  count,
  pastLength,
  parents,
}: Pick<NewRows, 'count' | 'pastLength' | 'parents'>): Int32Array {
  const positions = new Int32Array(count);
  const next = pastLength - 1; // without the dummy
  for (let row = 0; row < count; row++) {
    const parent = parents === undefined ? row - 1 : parents[row]!;
    positions[row] = parent < 0 ? next : positions[parent]! + 1;
  }
  return positions;
}

export function treeMask(
  rows: Pick<NewRows, 'count' | 'pastLength' | 'parents' | 'positions' | 'window'>, //
): Float32Array {
  const { count, pastLength, parents } = rows;
  const width = pastLength + count;
  const mask = new Float32Array(count * width);
  for (let row = 0; row < count; row++) {
    const start = row * width;
    mask[start] = blocked;
    const parent = parents === undefined ? row - 1 : parents[row]!;
    const seen = start + pastLength;
    if (parents === undefined) {
      mask.fill(blocked, seen + row + 1, start + width);
      continue;
    }
    if (parent < 0) mask.fill(blocked, seen, start + width);
    else mask.copyWithin(seen, parent * width + pastLength, (parent + 1) * width);
    mask[seen + row] = 0;
  }
  if (rows.window !== undefined) {
    blockBehindWindow(mask, rows, rows.positions ?? positionsOf(rows), rows.window);
  }
  return mask;
}

/** Applied after the tree: an ancestor's view may exceed the row's window. */
function blockBehindWindow(
  mask: Float32Array, // [row, past + row]
  { count, pastLength }: Pick<NewRows, 'count' | 'pastLength'>,
  positions: Int32Array, // [row]
  window: number,
): void {
  const width = pastLength + count;
  for (let row = 0; row < count; row++) {
    const start = row * width;
    const oldest = positions[row]! - window + 1; // the oldest position in sight
    // After the dummy, past row i holds position i - 1.
    mask.fill(blocked, start, start + Math.min(pastLength, Math.max(1, oldest + 1)));
    for (let other = 0; other < count; other++) {
      if (positions[other]! < oldest) mask[start + pastLength + other] = blocked;
    }
  }
}
