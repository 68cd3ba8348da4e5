import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { packTexts, padTexts } from './batches.js';

describe('packed rows', () => {
  it('take short texts where long ones leave room', () => {
    // Two rows of 48 make a batch of 100: 45 leaves room for 3, and so on.
    expect(packTexts([45, 40, 30, 17, 8, 3], 100)).toEqual([
      { length: 48, rowsOfBatch: 2, rows: [[0, 5], [1, 4], [2, 3]] }, // prettier-ignore
    ]);
  });

  it('are longer than the longest text where short ones would stay half empty', () => {
    const [shelf, ...others] = packTexts(new Array<number>(15).fill(25), 128);
    expect(others).toEqual([]);
    expect(shelf).toMatchObject({ length: 128, rowsOfBatch: 1 });
    expect(shelf!.rows.map((row) => row.length)).toEqual([5, 5, 5]);
  });

  it('are no longer than what is in them', () => {
    expect(packTexts([400, 30], 1024)).toEqual([{ length: 432, rowsOfBatch: 1, rows: [[0, 1]] }]);
  });

  it('have a batch of their own for a text that is too long for any', () => {
    expect(packTexts([70, 50, 20, 10], 64)).toEqual([
      { length: 80, rowsOfBatch: 1, rows: [[0]] },
      { length: 64, rowsOfBatch: 1, rows: [[1, 3], [2]] },
    ]);
    expect(packTexts([70], 64)).toEqual([{ length: 80, rowsOfBatch: 1, rows: [[0]] }]);
  });

  it('are never fuller than they are long, and fewer than rows of one text', () => {
    const lengths = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 80 });
    fc.assert(
      fc.property(lengths, fc.integer({ min: 1, max: 600 }), (drawn, batchTokens) => {
        const sorted = [...drawn].sort((left, right) => right - left);
        const shelves = packTexts(sorted, batchTokens);
        for (const { length, rows, rowsOfBatch } of shelves) {
          for (const row of rows)
            expect(row.reduce((sum, place) => sum + sorted[place]!, 0)).toBeLessThanOrEqual(length);
          expect(rowsOfBatch === 1 || rowsOfBatch * length <= batchTokens).toBe(true);
        }
        const places = shelves.flatMap(({ rows }) => rows.flat());
        expect(places.sort((left, right) => left - right)).toEqual(sorted.map((_, place) => place));
      }),
      { seed: 2, numRuns: 200 },
    );
  });
});

it('padded rows have one text each, cut from long to short', () => {
  expect(padTexts([45, 40, 30, 17, 8, 3], 100)).toEqual([
    { length: 48, rowsOfBatch: 2, rows: [[0], [1]] },
    { length: 32, rowsOfBatch: 3, rows: [[2], [3], [4]] },
    { length: 16, rowsOfBatch: 1, rows: [[5]] },
  ]);
});
