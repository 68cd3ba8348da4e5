/**
 * What attention is told at run time: the angles of each new row's position and an additive mask over the past and
 * the new rows. New rows are a tree (a chain is one): each names its parent among the new rows, or -1 where it
 * directly follows the past, and sees the past, its ancestors and itself; with a sliding window of w only those less
 * than w positions before it.
 */
import type { NamedValues, TensorValue } from '../runtime/program.js';
import { float32, int32 } from '../runtime/program.js';
import type { RotaryTable } from './rotary/rotary.js';

/** Added to a blocked score: far below any real one, and finite, so that no row turns into NaN. */
export const blocked = -1e30;

/** An input of one lane that is combined with those of other lanes by more than placing rows side by side. */
export interface CombinedInput extends TensorValue {
  readonly combine: 'masks' | 'row-numbers';
}

/** What the new rows of a lane see. [row, past + row] */
export const maskInput = (mask: Float32Array, shape: readonly [number, number]): CombinedInput => ({
  ...float32(mask, shape),
  combine: 'masks',
});

/** Numbers of rows of the lane, which become rows of the whole batch. [selected] */
export const rowNumbers = (rows: Int32Array | readonly number[]): CombinedInput => ({
  ...int32(rows),
  combine: 'row-numbers',
});

export interface NewRows {
  readonly count: number;
  /** Rows the program sees as past, the cache's dummy included. */
  readonly pastLength: number;
  /** [row] absent for a chain */
  readonly parents?: Int32Array | undefined;
  /** [row] position in the sequence; by default behind the past, at the depth of the row. */
  readonly positions?: Int32Array | undefined;
  /** Positions that a row sees, its own included; all of them unless given. */
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

/** After the tree is drawn: a row's parent may see what the row itself no longer does, but never the other way round. */
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
    // Behind the dummy, past row i holds position i - 1.
    mask.fill(blocked, start, start + Math.min(pastLength, Math.max(1, oldest + 1)));
    for (let other = 0; other < count; other++) {
      if (positions[other]! < oldest) mask[start + pastLength + other] = blocked;
    }
  }
}
