import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import { chooseDraftVocabulary, countLearntTokens, measureCoverage } from './training-start.js';

const counts = Float64Array.of(0, 5, 2, 9, 2, 0, 2, 0);

describe('chooseDraftVocabulary', () => {
  it('takes the most frequent tokens, of equals those with lower ids', () => {
    expect(chooseDraftVocabulary(counts, 2).tokens).toEqual(Int32Array.of(1, 3));
    expect(chooseDraftVocabulary(counts, 4).tokens).toEqual(Int32Array.of(1, 2, 3, 4));
    expect(chooseDraftVocabulary(counts, 4)).toMatchObject({
      coverage: 18 / 20,
      unseen: 0,
      notice: undefined,
    });
  });

  it('always has the special tokens', () => {
    const chosen = chooseDraftVocabulary(counts, 3, { always: [0, 7, 7] });
    expect(chosen.tokens).toEqual(Int32Array.of(0, 3, 7));
    expect(chosen).toMatchObject({ coverage: 9 / 20, unseen: 0 });
  });

  it('fills up with the lowest ids that are left, and says so', () => {
    const chosen = chooseDraftVocabulary(counts, 7, { always: [7] });
    expect(chosen.tokens).toEqual(Int32Array.of(0, 1, 2, 3, 4, 6, 7));
    expect(chosen).toMatchObject({ coverage: 1, unseen: 1 });
    expect(chosen.notice).toMatch(/vocabulary's 7: 1 that were never seen/);
    expect(chooseDraftVocabulary(counts, 8).tokens).toEqual(Int32Array.of(0, 1, 2, 3, 4, 5, 6, 7));
  });

  it('covers everything where nothing was counted', () => {
    expect(chooseDraftVocabulary(new Float64Array(4), 2)).toMatchObject({ coverage: 1, unseen: 2 });
  });

  it.each([
    ['more tokens than the target has', 9, [], /cannot have 9 tokens; 1 to 8, the target's, were expected/],
    ['no tokens', 0, [], /cannot have 0/],
    ['half a token', 2.5, [], /cannot have 2.5/],
    ['no room for special tokens', 2, [0, 1, 2], /no room for the target's 3 special/],
    ['a special token of another target', 2, [8], /Token 8 lies outside the target's 8/],
  ])('refuses %s', (_, size, always, message) => {
    expect(() => chooseDraftVocabulary(counts, size, { always })).toThrow(message);
    expect(() => chooseDraftVocabulary(counts, size, { always })).toThrow(MistletoeError);
  });
});

describe('countLearntTokens', () => {
  const example = { tokens: Int32Array.of(1, 2, 2, 3), isLearnt: Uint8Array.of(0, 1, 1, 1) };

  it('counts what is learnt, and nothing else', () => {
    const counted = countLearntTokens([example, example], 4);
    expect(counted).toEqual(Float64Array.of(0, 0, 4, 2));
    expect(measureCoverage(counted, Int32Array.of(1, 2))).toBe(4 / 6);
  });

  it('refuses tokens that the target does not have', () => {
    expect(() => countLearntTokens([example], 3)).toThrow(/Token 3 lies outside/);
  });
});
