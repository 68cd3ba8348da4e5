import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { editSimilarity, findAdded, firstDifference } from './kept-class.js';

const tokens = fc.array(fc.nat(4), { maxLength: 12 });
const codes = (text: string) => Array.from(text, (letter) => letter.charCodeAt(0));

describe('firstDifference', () => {
  it.each([
    ['abcd', 'abxd', 2],
    ['abc', 'abc', 3],
    ['ab', 'abc', 2],
    ['abc', 'ab', 2],
    ['x', 'y', 0],
    ['', 'y', 0],
  ])('of %j and %j is %i', (left, right, expected) => {
    expect(firstDifference(codes(left), codes(right))).toBe(expected);
  });
});

describe('editSimilarity', () => {
  it.each([
    ['kitten', 'sitting', 1 - 3 / 7],
    ['flaw', 'lawn', 1 - 2 / 4],
    ['intention', 'execution', 1 - 5 / 9],
    ['same', 'same', 1],
    ['', '', 1],
    ['', 'abc', 0],
    ['abc', 'xyz', 0],
  ])('of %j and %j is %f', (left, right, expected) => {
    expect(editSimilarity(codes(left), codes(right))).toBeCloseTo(expected, 15);
  });

  it('is symmetric, and 1 only for equals', () => {
    fc.assert(
      fc.property(tokens, tokens, (left, right) => {
        const similarity = editSimilarity(left, right);
        expect(editSimilarity(right, left)).toBe(similarity);
        expect(similarity).toBeGreaterThanOrEqual(0);
        expect(similarity === 1).toBe(left.join() === right.join());
      }),
    );
  });
});

describe('findAdded', () => {
  it('finds replacements and additions', () => {
    expect([...findAdded([1, 2, 3, 4, 5], [1, 9, 3, 5, 6])]).toEqual([1, 4]);
    expect([...findAdded([7, 8], [7, 8])]).toEqual([]);
    expect([...findAdded([], [3])]).toEqual([0]);
  });

  it('leaves a common subsequence that is as long as possible', () => {
    fc.assert(
      fc.property(tokens, tokens, (left, right) => {
        const added = findAdded(left, right);
        const kept = right.filter((_, index) => !added.has(index));
        expect(kept).toHaveLength(longestCommon(left, right));
        expect(longestCommon(left, kept)).toBe(kept.length);
      }),
    );
  });
});

/** By definition, recursively; slow. */
function longestCommon(
  left: readonly number[],
  right: readonly number[],
  seen = new Map<string, number>(),
): number {
  if (left.length === 0 || right.length === 0) return 0;
  const key = `${left.length},${right.length}`;
  const known = seen.get(key);
  if (known !== undefined) return known;
  const length = Math.max(
    longestCommon(left.slice(1), right, seen),
    longestCommon(left, right.slice(1), seen),
    left[0] === right[0] ? 1 + longestCommon(left.slice(1), right.slice(1), seen) : 0,
  );
  seen.set(key, length);
  return length;
}
