import { describe, expect, it } from 'vitest';
import type { Candidate } from './candidates.js';
import { fillPasses, groupByBeginning, roundCopies } from './pass-rows.js';

const editsAt = (...firsts: readonly number[]): Candidate[] =>
  firsts.map((first) => ({ suffixIds: [], first }));
const firstsOf = (groups: readonly (readonly Candidate[])[]): number[][] =>
  groups.map((group) => group.map(({ first }) => first));

describe('groups of candidates', () => {
  it('are those of one position where those are many', () => {
    const edits = editsAt(...new Array<number>(9).fill(3), ...new Array<number>(8).fill(1));
    expect(firstsOf(groupByBeginning(edits))).toEqual([
      new Array<number>(8).fill(1),
      new Array<number>(9).fill(3),
    ]);
  });

  it('reach over positions where those are few', () => {
    expect(firstsOf(groupByBeginning(editsAt(5, 0, 2)))).toEqual([[0, 2, 5]]);
  });

  it('fill passes of a device: the later they begin, the more of them', () => {
    const edits = editsAt(...Array.from({ length: 90 }, (_, index) => Math.floor(index / 9)));
    const rowsBehind = (first: number): number => 20 - first;
    const groups = groupByBeginning(
      edits,
      fillPasses((first) => Math.floor(400 / rowsBehind(first))),
    );
    expect(groups.map((group) => [group[0]!.first, group.length])).toEqual([
      [0, 16],
      [1, 16],
      [3, 16],
      [5, 24],
      [8, 18],
    ]);
    for (const group of groups.slice(0, -1)) expect(roundCopies(group.length)).toBe(group.length);
    for (const group of groups)
      expect(roundCopies(group.length) * rowsBehind(group[0]!.first)).toBeLessThanOrEqual(400);
  });

  it('have one candidate at least, and those below the step are not rounded', () => {
    const few = fillPasses(() => 3);
    expect(firstsOf(groupByBeginning(editsAt(0, 0, 0, 0), few))).toEqual([[0, 0, 0], [0]]);
    expect([1, 7, 8, 9].map(roundCopies)).toEqual([1, 7, 8, 16]);
  });
});
