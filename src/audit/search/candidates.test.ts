import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import {
  mergeEdits,
  planChanges,
  type ProposalSettings,
  proposeCandidates,
  randomSuffix,
  rankTokens,
} from './candidates.js';

const vocabularySize = 12;
const allowed = Int32Array.of(1, 3, 4, 7, 9, 10);
const base = [1, 3, 4, 7];

function direction(seed: number): Float32Array {
  const random = createRandom(seed, 'direction');
  return Float32Array.from({ length: base.length * vocabularySize }, () => random.next());
}

const propose = (seed: number, { topTokens, ...settings }: ProposalSettings & { topTokens: number }) =>
  proposeCandidates(
    base,
    rankTokens(base, direction(seed), { allowed, count: topTokens }),
    settings,
    createRandom(seed, 'propose'),
  );

describe('candidates', () => {
  it('change as many positions as asked for, each to another allowed token', () => {
    fc.assert(
      fc.property(
        fc.nat(1000),
        fc.integer({ min: 1, max: 40 }),
        fc.integer({ min: 1, max: 20 }),
        fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 }),
        (seed, candidates, topTokens, changes) => {
          const proposed = propose(seed, { candidates, topTokens, changes });
          expect(proposed).toHaveLength(candidates);
          proposed.forEach(({ suffixIds, first }, index) => {
            const changed = base.flatMap((token, place) => (suffixIds[place] === token ? [] : [place]));
            expect(changed).toHaveLength(changes[index % changes.length]!);
            expect(changed[0]).toBe(first);
            for (const place of changed) expect(allowed).toContain(suffixIds[place]);
          });
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
    const promising = rankTokens(base, gains, { allowed, count: 2 });
    const proposed = proposeCandidates(base, promising, { candidates: 40, changes: [1] }, createRandom(1));
    expect(new Set(proposed.map(({ suffixIds, first }) => suffixIds[first]))).toEqual(new Set([9, 10]));
    expect(new Set(proposed.map(({ first }) => first))).toEqual(new Set([0, 1, 2, 3]));
  });

  it('change many tokens at first and one or two in the end, one-token moves always among them', () => {
    expect(planChanges(1, 100, 8)).toEqual([1, 8, 2, 4]);
    expect(planChanges(100, 100, 8)).toEqual([1, 1, 2, 1]);
    for (let step = 1; step <= 30; step++) expect(planChanges(step, 30, 1)).toEqual([1, 1, 1, 1]);
  });

  it('draws the same from the same seed', () => {
    const settings = { candidates: 6, topTokens: 4, changes: [1, 2] };
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
