import { expect, it } from 'vitest';
import { addLengths, meanLength, walkAnswers } from './held-out-length.js';

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

const walk = (choices: readonly Int32Array[]) => walkAnswers({ tokens, weights, shape: [1, 8] }, choices);

it('takes whole drafts where all of them are right', () => {
  // Behind 10 the draft 11 12 is taken and 13 is the target's own; behind 13 only 14 is left.
  expect(walk(draft(2, []))).toEqual({ steps: 2, accepted: 3, reached: [2, 1] });
  expect(meanLength(walk(draft(2, [])))).toBe(2.5);
});

it('ends a step at the first wrong level, and goes on behind what the target says there', () => {
  expect(walk(draft(2, [[1, 12]]))).toEqual({ steps: 2, accepted: 3, reached: [2, 1] });
  expect(walk(draft(2, [[0, 11]]))).toEqual({ steps: 2, accepted: 2, reached: [1, 1] });
});

it('is plain decoding where no draft is right', () => {
  const wrong = draft(2, []).map((level) => level.map(() => -1));
  expect(walk(wrong)).toEqual({ steps: 4, accepted: 0, reached: [0, 0] });
});

it('adds up', () => {
  const once = walk(draft(2, []));
  expect(addLengths(once, once)).toEqual({ steps: 4, accepted: 6, reached: [4, 2] });
});
