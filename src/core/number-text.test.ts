import { describe, expect, it } from 'vitest';
import { escapeMarkdown, escapeMarkup, showInvisible } from '../report/escape.js';
import { countAnswers, describeKept, keptDigits, keptText } from '../report/kept-text.js';
import { fewestPrompts } from '../report/levels.js';
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
import { median } from '../report/timing-summary.js';

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

  it('have a median, or none', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 2, 3, NaN])).toBe(2.5);
    expect(median([])).toBeNull();
  });
});

describe('the classes of answers', () => {
  const kept = { identical: 22, task: 1, similar: 1, different: 0 };

  it('are written for a cell and for a narrow one', () => {
    expect(keptText(kept)).toBe('22 identical · 1 task · 1 similar · 0 different');
    expect(keptDigits(kept)).toBe('22/1/1/0');
    expect(countAnswers({ ...kept, different: 3 })).toEqual({ kept: 24, total: 27 });
  });

  it.each([
    [kept, '22 of 24 answers are identical, 1 has the same result, 1 is similar'],
    [
      { ...kept, identical: 0, different: 2 },
      '1 of 4 answers has the same result, 1 is similar, 2 are different',
    ],
    [{ identical: 24, task: 0, similar: 0, different: 0 }, 'all 24 answers are identical'],
    [{ identical: 0, task: 0, similar: 1, different: 0 }, 'the answer is similar'],
    [{ identical: 0, task: 0, similar: 0, different: 0 }, 'no answer was compared'],
  ])('%o become a sentence', (counts, sentence) => {
    expect(describeKept(counts)).toBe(sentence);
  });
});

describe('the fewest prompts that can decide', () => {
  it.each([1, 2, 3, 4, 5, 8, 20])('are right for %i drafters', (drafters) => {
    const smallest = (prompts: number): number => drafters / 2 ** prompts;
    expect(smallest(fewestPrompts(drafters))).toBeLessThan(0.05);
    expect(smallest(fewestPrompts(drafters) - 1)).toBeGreaterThanOrEqual(0.05);
  });
});

describe('text in a report', () => {
  it('shows what cannot be seen and keeps lines, tabs and emoji', () => {
    expect(showInvisible('a\tb\r\nc\u0000\u007f\u0085\u202e🌿\ud800')).toBe(
      'a\tb\nc␀␡⟨U+0085⟩⟨U+202E⟩🌿⟨U+D800⟩',
    );
  });

  it('is escaped for markup and for Markdown', () => {
    expect(escapeMarkup(`<a href="x" title='y'>&`)).toBe(
      '&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;',
    );
    expect(escapeMarkdown('a|b `c` @d\n*e*')).toBe('a\\|b \\`c\\` @\u200bd \\*e\\*');
  });
});
