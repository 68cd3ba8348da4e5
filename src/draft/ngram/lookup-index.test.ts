import { describe, expect, it } from 'vitest';
import { LookupIndex } from './lookup-index.js';

function vote(text: readonly number[], count: number, max = 4) {
  const index = new LookupIndex({ min: 1, max });
  for (const token of text) index.push(token);
  return index.findVoted(count);
}

const tokensOf = (voted: ReturnType<typeof vote>): readonly number[] => voted.map(({ token }) => token);

describe('places of a text vote', () => {
  it('with more weight the longer they match', () => {
    // Two tokens match before 7, one before 8.
    expect(vote([1, 2, 7, 3, 2, 8, 1, 2], 1)).toEqual([{ token: 7, share: 4 / (4 + 2 + 5) }]);
    // Three short matches weigh more than a longer one.
    expect(vote([1, 2, 7, 3, 2, 8, 4, 2, 8, 5, 2, 8, 1, 2], 1)).toEqual([
      { token: 8, share: 6 / (6 + 4 + 5) },
    ]);
    expect(vote([1, 2, 3, 4, 5, 9, 1, 2, 3, 4, 5], 1, 2)).toEqual([{ token: 9, share: 4 / 9 }]);
  });

  it('for the latest of equal ones', () => {
    expect(tokensOf(vote([2, 7, 3, 2, 8, 3, 2], 1))).toEqual([8]);
  });

  it('for the next token as long as they followed', () => {
    const voted = vote([1, 2, 7, 6, 1, 2, 7, 5, 4, 1, 2], 3);
    expect(tokensOf(voted)).toEqual([7, 5, 4]);
    expect(voted.map(({ share }) => share)).toEqual([8 / 13, 8 / 21, 16 / 21]);
  });

  it('beyond the end, where the text repeats itself', () => {
    expect(tokensOf(vote([1, 2, 1, 2, 1], 5))).toEqual([2, 1, 2, 1, 2]);
    expect(tokensOf(vote([5, 5], 3))).toEqual([5, 5, 5]);
  });

  it('for nothing in a new text', () => {
    expect(vote([1, 2, 3], 3)).toEqual([]);
    expect(vote([], 3)).toEqual([]);
  });

  it('in bounded time', () => {
    const voted = vote(
      Array.from({ length: 50_000 }, () => 1),
      8,
      64,
    );
    expect(tokensOf(voted)).toEqual(Array.from({ length: 8 }, () => 1));
  });
});
