import { expect, it } from 'vitest';
import type { TextBatch } from '../data/batches.js';
import { addLengths, walkAnswers } from './training-loop.js';
import { acceptedLengthOf } from '../../measure/statistics.js';

const tokens = Int32Array.of(1, 2, 10, 11, 12, 13, 14, 0);
const weights = Float32Array.of(0, 0, 1, 1, 1, 1, 1, 0);

/** [level] what is drafted at each row, right but for the given tokens' places. */
function draft(levels: number, wrong: readonly (readonly [level: number, token: number])[]): Int32Array[] {
  return Array.from({ length: levels }, (_, level) =>
    Int32Array.from({ length: tokens.length - 2 - level }, (_, row) => {
      const token = tokens[row + 2 + level]!;
      return wrong.some((place) => place[0] === level && place[1] === token) ? -1 : token;
    }),
  );
}

const texts = [{ id: 'one', row: 0, start: 0, length: 7 }];
const walk = (choices: readonly Int32Array[]) =>
  walkAnswers({ tokens, weights, shape: [1, 8], texts }, choices);

it('takes whole drafts where all of them are right', () => {
  // Behind 10 the draft 11 12 is taken and 13 is the target's own; behind 13 only 14 is left.
  expect(walk(draft(2, []))).toEqual({ steps: 2, accepted: 3, reached: [2, 1] });
  expect(acceptedLengthOf(walk(draft(2, [])))).toBe(2.5);
});

it('ends a step at the first wrong level, and goes on behind what the target says there', () => {
  expect(walk(draft(2, [[1, 12]]))).toEqual({ steps: 2, accepted: 3, reached: [2, 1] });
  expect(walk(draft(2, [[0, 11]]))).toEqual({ steps: 2, accepted: 2, reached: [1, 1] });
});

it('is plain decoding where no draft is right', () => {
  const wrong = draft(2, []).map((level) => level.map(() => -1));
  expect(walk(wrong)).toEqual({ steps: 4, accepted: 0, reached: [0, 0] });
});

it('walks texts of one row each by itself', () => {
  const text = [1, 2, 10, 11, 12, 13, 14];
  const twice = Int32Array.of(...text, ...text, 0);
  const batch: TextBatch = {
    ...{ tokens: twice, weights: Float32Array.from(twice, (token) => +(token >= 10)), shape: [1, 15] },
    texts: [0, 7].map((start) => ({ id: `${start}`, row: 0, start, length: 7 })),
  };
  const right = [0, 1].map((level) => twice.slice(2 + level));
  expect(walkAnswers(batch, right)).toEqual({ steps: 4, accepted: 6, reached: [4, 2] });
  // What is drafted across the border is never looked at.
  const broken = right.map((level, depth) =>
    level.map((token, row) => (row < 7 && row + 2 + depth >= 7 ? -1 : token)),
  );
  expect(walkAnswers(batch, broken)).toEqual({ steps: 4, accepted: 6, reached: [4, 2] });
});

it('adds up', () => {
  const once = walk(draft(2, []));
  expect(addLengths(once, once)).toEqual({ steps: 4, accepted: 6, reached: [4, 2] });
});
