import { expect, it } from 'vitest';
import type { TextBatch } from './batches.js';
import { maskTexts, positionsInTexts } from './batches.js';

const batch: TextBatch = {
  ...{ tokens: new Int32Array(12), weights: new Float32Array(12), shape: [2, 6] },
  texts: [
    { id: 'one', row: 0, start: 0, length: 3 },
    { id: 'two', row: 0, start: 3, length: 2 },
    { id: 'three', row: 1, start: 0, length: 6 },
  ],
};

/** A line for each position, with a mark for each that it sees. */
function draw(mask: Float32Array): string[] {
  const marks = Array.from(mask, (value) => (value === 0 ? 'x' : '.'));
  return Array.from({ length: 12 }, (_, row) => marks.slice(6 * row, 6 * (row + 1)).join(''));
}

it('each text sees itself, from its beginning on', () => {
  expect(draw(maskTexts(batch))).toEqual([
    ...['x.....', 'xx....', 'xxx...', '...x..', '...xx.', '.....x'],
    ...['x.....', 'xx....', 'xxx...', 'xxxx..', 'xxxxx.', 'xxxxxx'],
  ]);
});

it('and no further back than its window', () => {
  expect(draw(maskTexts(batch, 2))).toEqual([
    ...['x.....', 'xx....', '.xx...', '...x..', '...xx.', '.....x'],
    ...['x.....', 'xx....', '.xx...', '..xx..', '...xx.', '....xx'],
  ]);
});

it('counts the positions of each text from 0', () => {
  expect(Array.from(positionsInTexts(batch))).toEqual([0, 1, 2, 0, 1, 0, 0, 1, 2, 3, 4, 5]);
});
