import { describe, expect, it } from 'vitest';
import { treeMask } from './attention-inputs.js';

/** Which positions a row sees, by walking from it to the root and on into the past. */
function walk(row: number, past: number, parents: readonly number[], window: number): Set<number> {
  const columns = new Set<number>();
  let left = window;
  for (let at = row; at >= 0 && left > 0; at = parents[at]!, left -= 1) columns.add(1 + past + at);
  for (let position = past - 1; position >= 0 && left > 0; position -= 1, left -= 1)
    columns.add(1 + position);
  return columns;
}

describe('the mask of a tree', () => {
  const chain = [-1, 0, 1, 2, 3];
  const tree = [-1, 0, 0, 1, 2, 4, -1];
  it.each([
    ['chain', chain, 0, 3],
    ['chain', chain, 7, 1],
    ['chain', chain, 7, 4],
    ['chain', chain, 7, 100],
    ['tree', tree, 0, 2],
    ['tree', tree, 6, 2],
    ['tree', tree, 6, 5],
    ['tree', tree, 6, 100],
  ])('%s %j behind %d verified positions shows the last %d', (name, parents, past, window) => {
    const count = parents.length;
    const pastLength = past + 1;
    const mask = treeMask({
      count,
      pastLength,
      window,
      ...(name === 'chain' ? {} : { parents: Int32Array.from(parents) }),
    });
    for (let row = 0; row < count; row++) {
      const cells = mask.subarray(row * (pastLength + count), (row + 1) * (pastLength + count));
      const seen = [...cells.keys()].filter((column) => cells[column] === 0);
      expect(new Set(seen)).toEqual(walk(row, past, parents, window));
    }
  });
});
