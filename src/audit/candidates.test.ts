import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { keyOf, mergeEdits, proposeCandidates, randomSuffix } from './candidates.js';

const vocabularySize = 12;
const allowed = Int32Array.of(1, 3, 4, 7, 9, 10);
const base = [1, 3, 4, 7];

function direction(seed: number): Float32Array {
  const random = createRandom(seed, 'direction');
  return Float32Array.from({ length: base.length * vocabularySize }, () => random.next());
}

const propose = (seed: number, settings: { candidates: number; topTokens: number; positions: number }) =>
  proposeCandidates(base, direction(seed), allowed, settings, createRandom(seed, 'propose'));

describe('candidates', () => {
  it('change one position to an allowed token, and never twice to the same', () => {
    fc.assert(
      fc.property(
        fc.nat(1000),
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 9 }),
        (seed, candidates, topTokens, positions) => {
          const proposed = propose(seed, { candidates, topTokens, positions });
          for (const { suffixIds, first } of proposed) {
            const changed = base.flatMap((token, place) => (suffixIds[place] === token ? [] : [place]));
            expect(changed).toEqual([first]);
            expect(allowed).toContain(suffixIds[first]);
          }
          const keys = proposed.map(({ suffixIds }) => keyOf(suffixIds));
          expect(new Set(keys).size).toBe(keys.length);
          expect(new Set(proposed.map(({ first }) => first)).size).toBeLessThanOrEqual(positions);
        },
      ),
    );
  });

  it('are the tokens with the largest gain', () => {
    const gains = new Float32Array(base.length * vocabularySize);
    base.forEach((_, position) => {
      gains[position * vocabularySize + 9] = 2;
      gains[position * vocabularySize + 10] = 1;
      gains[position * vocabularySize + 0] = 5; // not allowed
    });
    const proposed = proposeCandidates(
      base,
      gains,
      allowed,
      { candidates: 8, topTokens: 2, positions: 4 },
      createRandom(1),
    );
    expect(proposed).toHaveLength(8);
    expect(new Set(proposed.map(({ suffixIds, first }) => suffixIds[first]))).toEqual(new Set([9, 10]));
  });

  it('draws the same from the same seed', () => {
    const settings = { candidates: 6, topTokens: 4, positions: 2 };
    expect(propose(5, settings)).toEqual(propose(5, settings));
    expect(propose(5, settings)).not.toEqual(propose(6, settings));
  });

  it('random suffixes have allowed tokens only', () => {
    const drawn = randomSuffix(allowed, 500, createRandom(2));
    expect(drawn).toHaveLength(500);
    expect(new Set(drawn)).toEqual(new Set(allowed));
  });
});

describe('merged edits', () => {
  const edit = (first: number, token: number) => ({
    suffixIds: base.map((old, place) => (place === first ? token : old)),
    first,
  });

  it('join the best at distinct positions one after the other', () => {
    expect(mergeEdits(base, [edit(2, 9), edit(2, 10), edit(0, 7), edit(3, 1)], 4)).toEqual([
      { suffixIds: [7, 3, 9, 7], first: 0 },
      { suffixIds: [7, 3, 9, 1], first: 0 },
    ]);
  });

  it('stop at the most that is allowed', () => {
    expect(mergeEdits(base, [edit(1, 9), edit(3, 9), edit(0, 9)], 2)).toEqual([
      { suffixIds: [1, 9, 4, 9], first: 1 },
    ]);
    expect(mergeEdits(base, [edit(1, 9), edit(3, 9)], 1)).toEqual([]);
    expect(mergeEdits(base, [], 4)).toEqual([]);
  });
});
