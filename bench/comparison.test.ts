import { describe, expect, it } from 'vitest';
import { describeProducts, formatSpeedup, isComparable } from './comparison.js';

const side = (name: string, gigaflops: number) => ({ name, gigaflops });

describe('comparisons with another library', () => {
  it('gives a ratio where both sides multiply matrices at a similar rate', () => {
    const [own, other] = [side('Mistletoe', 80), side('PyTorch', 70)];
    expect(formatSpeedup(own, 100, other, 131)).toBe('1.31x');
    expect(describeProducts(own, other)).toBe(
      'One large matrix product: Mistletoe 80 GFLOP/s, PyTorch 70 GFLOP/s.',
    );
  });

  it('refuses a ratio when either side reaches less than half of the rate of the other', () => {
    const [slow, fast] = [side('PyTorch', 39), side('Mistletoe', 80)];
    expect(formatSpeedup(fast, 100, slow, 480)).toBe('–');
    expect(formatSpeedup(slow, 480, fast, 100)).toBe('–');
    expect(describeProducts(fast, slow)).toContain('No ratios');
    expect(isComparable(side('a', 40), fast)).toBe(true);
  });

  it('refuses a ratio without a measured rate', () => {
    for (const rate of [0, NaN, Infinity]) expect(isComparable(side('a', rate), side('b', 80))).toBe(false);
  });
});
