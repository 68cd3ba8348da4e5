import { describe, expect, it } from 'vitest';
import { chooseDraftVocabulary, countLearntTokens } from './training-start.js';

const counts = Float64Array.of(0, 5, 2, 9, 2, 0, 2, 0);

describe('chooseDraftVocabulary', () => {
  it('takes the most frequent tokens, of equals those with lower ids', () => {
    expect(chooseDraftVocabulary(counts, 2, []).tokens).toEqual(Int32Array.of(1, 3));
    expect(chooseDraftVocabulary(counts, 4, []).tokens).toEqual(Int32Array.of(1, 2, 3, 4));
    expect(chooseDraftVocabulary(counts, 4, [])).toMatchObject({ coverage: 18 / 20, notice: undefined });
  });

  it('always has the special tokens', () => {
    const chosen = chooseDraftVocabulary(counts, 3, [0, 7, 7]);
    expect(chosen.tokens).toEqual(Int32Array.of(0, 3, 7));
    expect(chosen).toMatchObject({ coverage: 9 / 20, notice: undefined });
  });

  it('fills up with the lowest ids that are left, and says so', () => {
    const chosen = chooseDraftVocabulary(counts, 7, [7]);
    expect(chosen.tokens).toEqual(Int32Array.of(0, 1, 2, 3, 4, 6, 7));
    expect(chosen.coverage).toBe(1);
    expect(chosen.notice).toMatch(/vocabulary's 7: 1 that were never seen/);
    expect(chooseDraftVocabulary(counts, 8, []).tokens).toEqual(Int32Array.of(0, 1, 2, 3, 4, 5, 6, 7));
  });

  it('covers everything where nothing was counted', () => {
    expect(chooseDraftVocabulary(new Float64Array(4), 2, [])).toMatchObject({ coverage: 1 });
  });

  it('refuses a size without room for the special tokens', () => {
    expect(() => chooseDraftVocabulary(counts, 2, [0, 1, 2])).toThrow(/no room for the target's 3 special/);
  });
});

describe('countLearntTokens', () => {
  const example = { tokens: Int32Array.of(1, 2, 2, 3), isLearnt: Uint8Array.of(0, 1, 1, 1) };

  it('counts what is learnt, and nothing else', () => {
    expect(countLearntTokens([example, example], 4)).toEqual(Float64Array.of(0, 0, 4, 2));
  });
});
