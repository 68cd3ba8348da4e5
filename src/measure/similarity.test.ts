import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { alignTokens, editSimilarity, firstDifference } from './similarity.js';

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

describe('alignTokens', () => {
  it('lays out a replacement, a removal and an addition', () => {
    expect(alignTokens([1, 2, 3, 4, 5], [1, 9, 3, 5, 6])).toEqual([
      { kind: 'same', tokens: [1], leftStart: 0, rightStart: 0 },
      { kind: 'removed', tokens: [2], leftStart: 1, rightStart: 1 },
      { kind: 'added', tokens: [9], leftStart: 2, rightStart: 1 },
      { kind: 'same', tokens: [3], leftStart: 2, rightStart: 2 },
      { kind: 'removed', tokens: [4], leftStart: 3, rightStart: 3 },
      { kind: 'same', tokens: [5], leftStart: 4, rightStart: 3 },
      { kind: 'added', tokens: [6], leftStart: 5, rightStart: 4 },
    ]);
  });

  it('is one run for equals and none for nothing', () => {
    expect(alignTokens([7, 8], [7, 8])).toEqual([
      { kind: 'same', tokens: [7, 8], leftStart: 0, rightStart: 0 },
    ]);
    expect(alignTokens([], [])).toEqual([]);
  });

  it('rebuilds both sides, alternates, and keeps as much as possible', () => {
    fc.assert(
      fc.property(tokens, tokens, (left, right) => {
        const runs = alignTokens(left, right);
        const collect = (dropped: 'added' | 'removed') =>
          runs.filter((run) => run.kind !== dropped).flatMap((run) => run.tokens);
        expect(collect('added')).toEqual(left);
        expect(collect('removed')).toEqual(right);
        for (const [index, run] of runs.entries()) {
          expect(run.tokens.length).toBeGreaterThan(0);
          const before = runs.slice(0, index);
          const countBefore = (dropped: 'added' | 'removed') =>
            before.filter((other) => other.kind !== dropped).flatMap((other) => other.tokens).length;
          expect(run.leftStart).toBe(countBefore('added'));
          expect(run.rightStart).toBe(countBefore('removed'));
          const previous = runs[index - 1]?.kind;
          expect(run.kind).not.toBe(previous);
          if (previous === 'added') expect(run.kind).toBe('same');
        }
        const kept = runs.filter((run) => run.kind === 'same').flatMap((run) => run.tokens).length;
        expect(kept).toBe(longestCommon(left, right));
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
