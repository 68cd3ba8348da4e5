import { describe, expect, it } from 'vitest';
import { escapeMarkdown, escapeMarkup, showInvisible } from '../markup.js';
import { countAnswers, keptDigits, keptText } from './audit-words.js';
import { fewestPrompts } from './evidence.js';
import { median } from './timing-summary.js';

describe('measured times', () => {
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
