import { describe, expect, it } from 'vitest';
import {
  changeText,
  countText,
  divergenceText,
  durationText,
  fixed,
  moreText,
  parameterText,
  percentText,
  perplexityText,
  pValueText,
} from './number-text.js';

describe('numbers in a report', () => {
  it.each([
    [fixed(-0.001, 2), '0.00'],
    [fixed(-1.5, 1), '−1.5'],
    [fixed(NaN, 1), '–'],
    [fixed(null, 1), '–'],
    [percentText(0.314), '31 %'],
    [percentText(-0.05), '−5 %'],
    [changeText(0.314), '+31 %'],
    [changeText(-0.25), '−25 %'],
    [changeText(0.004), '0 %'],
    [changeText(-0.004), '0 %'],
    [changeText(0.004, 1), '+0.4 %'],
    [changeText(NaN), '–'],
    [moreText(1.33), '33 % more'],
    [moreText(0.96), '4 % fewer'],
    [moreText(1.001), 'as many'],
    [moreText(NaN), '–'],
    [countText(1, 'pass'), '1 pass'],
    [countText(2, 'pass'), '2 passes'],
    [countText(0, 'prompt'), '0 prompts'],
    [countText(4, 'search'), '4 searches'],
    [countText(2, 'given suffix'), '2 given suffixes'],
    [divergenceText(0), '0.000'],
    [divergenceText(0.0004), '< 0.001'],
    [pValueText(0.03125), 'p = 0.031'],
    [pValueText(1e-9), 'p < 0.001'],
    [perplexityText(1.314), '1.31'],
    [perplexityText(18_420), '18\u202f400'],
    [perplexityText(1.8e7), '1.8e+7'],
    [perplexityText(Infinity), '∞'],
    [durationText(640), '640 ms'],
    [durationText(59_960), '1 min 0 s'],
    [durationText(3_700_000), '1 h 1 min'],
    [parameterText(12_460_000), '12.5 million parameters'],
    [parameterText(8_030_000_000), '8.03 billion parameters'],
  ])('%s is written as %s', (written, expected) => {
    expect(written).toBe(expected);
  });
});
