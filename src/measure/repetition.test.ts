import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { repetitionShare } from './kept-class.js';

describe('repetitionShare', () => {
  it('counts repeated 4-grams by hand', () => {
    // 1231 2312 3123 1231 2312: three distinct of five
    expect(repetitionShare([1, 2, 3, 1, 2, 3, 1, 2])).toBeCloseTo(2 / 5, 15);
    expect(repetitionShare([5, 5, 5, 5, 5, 5, 5])).toBeCloseTo(3 / 4, 15);
    expect(repetitionShare([1, 2, 3, 4, 5, 6])).toBe(0);
  });

  it('takes other sizes', () => {
    expect(repetitionShare([1, 2, 1, 1], 1)).toBe(0.5);
    expect(repetitionShare([1, 2, 1, 2], 2)).toBeCloseTo(1 / 3, 15);
  });

  it('does not confuse tokens whose digits run together', () => {
    expect(repetitionShare([1, 11, 1, 1, 11], 2)).toBeCloseTo(1 / 4, 15);
    expect(repetitionShare([1, 11, 11, 1], 2)).toBe(0);
  });

  it('is 0 for a text shorter than one n-gram', () => {
    expect(repetitionShare([])).toBe(0);
    expect(repetitionShare([1, 1, 1])).toBe(0);
  });

  it('is the share of n-grams that stood earlier in the text', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(2), { minLength: 3, maxLength: 30 }),
        fc.integer({ min: 1, max: 3 }),
        (tokens, size) => {
          const starts = Array.from({ length: tokens.length - size + 1 }, (_, start) => start);
          const sameGram = (a: number, b: number) =>
            Array.from({ length: size }, (_, i) => tokens[a + i] === tokens[b + i]).every(Boolean);
          const repeated = starts.filter((start) =>
            starts.slice(0, start).some((other) => sameGram(start, other)),
          );
          expect(repetitionShare(tokens, size)).toBeCloseTo(repeated.length / starts.length, 12);
        },
      ),
    );
  });
});
