import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { countPasses } from './kept-class.js';

const lengths = fc.array(fc.integer({ min: 1, max: 6 }), { maxLength: 20 });
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

describe('countPasses', () => {
  // Steps of 3, 1 and 4 tokens behind the token of the prefill: 9 tokens in all.
  it.each([
    ['no token', 0, 0],
    ['the token of the prefill', 1, 0],
    ['part of the first step', 2, 1],
    ['the first step', 4, 1],
    ['two steps', 5, 2],
    ['part of the last step', 6, 3],
    ['everything', 9, 3],
    ['more than there is', 100, 3],
  ])('counts %s', (_, tokens, passes) => {
    expect(countPasses([3, 1, 4], tokens)).toBe(passes);
  });

  it('has no passes in an answer without steps', () => {
    for (const tokens of [0, 1, 5]) expect(countPasses([], tokens)).toBe(0);
  });

  it('is one pass a token for plain decoding', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), (tokens) => {
        expect(countPasses(Array<number>(60).fill(1), tokens)).toBe(tokens - 1);
      }),
    );
  });

  it('takes the fewest steps that reach the tokens, whatever comes behind them', () => {
    fc.assert(
      fc.property(lengths, lengths, fc.nat(130), (all, behind, tokens) => {
        const passes = countPasses(all, tokens);
        const reach = (steps: number) => 1 + sum(all.slice(0, steps));
        if (passes > 0) expect(reach(passes - 1)).toBeLessThan(tokens);
        if (passes < all.length) expect(reach(passes)).toBeGreaterThanOrEqual(tokens);
        if (tokens <= 1 + sum(all)) expect(countPasses([...all, ...behind], tokens)).toBe(passes);
      }),
    );
  });
});
