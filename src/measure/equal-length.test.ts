import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { countSteps } from './answer-measures.js';

const lengths = fc.array(fc.integer({ min: 1, max: 6 }), { maxLength: 20 });
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

describe('countSteps', () => {
  // Steps of 3, 1 and 4 tokens behind the token of the prefill: 9 tokens in all.
  it.each([
    ['no token', 0, 0, 1],
    ['the token of the prefill', 1, 0, 1],
    ['part of the first step', 2, 1, 1],
    ['the first step', 4, 1, 3],
    ['two steps', 5, 2, 2],
    ['part of the last step', 6, 3, 5 / 3],
    ['everything', 9, 3, 8 / 3],
    ['more than there is', 100, 3, 8 / 3],
  ])('counts %s', (_, tokens, passes, acceptedLength) => {
    expect(countSteps([3, 1, 4], tokens)).toEqual({ passes, acceptedLength });
  });

  it('has no passes in an answer without steps', () => {
    for (const tokens of [0, 1, 5]) expect(countSteps([], tokens)).toEqual({ passes: 0, acceptedLength: 1 });
  });

  it('is one pass a token for plain decoding', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), (tokens) => {
        expect(countSteps(Array<number>(60).fill(1), tokens)).toEqual({
          passes: tokens - 1,
          acceptedLength: 1,
        });
      }),
    );
  });

  it('is the mean of all steps over the whole answer', () => {
    fc.assert(
      fc.property(lengths, (all) => {
        const { passes, acceptedLength } = countSteps(all, 1 + sum(all));
        expect(passes).toBe(all.length);
        expect(acceptedLength).toBe(all.length === 0 ? 1 : sum(all) / all.length);
      }),
    );
  });

  it('takes the fewest steps that reach the tokens, whatever comes behind them', () => {
    fc.assert(
      fc.property(lengths, lengths, fc.nat(130), (all, behind, tokens) => {
        const { passes, acceptedLength } = countSteps(all, tokens);
        const reach = (steps: number) => 1 + sum(all.slice(0, steps));
        if (passes > 0) expect(reach(passes - 1)).toBeLessThan(tokens);
        if (passes < all.length) expect(reach(passes)).toBeGreaterThanOrEqual(tokens);
        expect(acceptedLength).toBeGreaterThanOrEqual(1);
        expect(acceptedLength).toBeLessThanOrEqual(Math.max(1, ...all));
        if (tokens <= 1 + sum(all)) {
          expect(countSteps([...all, ...behind], tokens)).toEqual({ passes, acceptedLength });
        }
      }),
    );
  });

  it('refuses what counts nothing', () => {
    expect(() => countSteps([2], -1)).toThrow(/tokens to compare is -1/);
    expect(() => countSteps([2], 1.5)).toThrow(/is 1\.5/);
    expect(() => countSteps([2], NaN)).toThrow(/is NaN/);
    expect(() => countSteps([2, 0], 9)).toThrow(/step 1 is 0/);
  });
});
