import { describe, expect, it } from 'vitest';
import { drawTokens, looksLikeCode, markLost, markTokens } from './answers.js';
import type { DecodedTokens } from './answers.js';

const decoded = (origins: string): DecodedTokens => ({ origins, histogram: [1, 0, 1] });

describe('the marks of tokens', () => {
  it('tell rejected drafts from a bonus and from the first token', () => {
    // Drafts of depth 2: prefill, nothing accepted, one accepted, both accepted, a draft cut at the end.
    const origins = 'b' + 'b' + 'ab' + 'aab' + 'a';
    expect(markTokens(decoded(origins)).join('')).toBe('b' + 'r' + 'ar' + 'aab' + 'a');
  });

  it('tell which accepted drafts are gone', () => {
    //                        same tokens, drafted without and with the suffix
    const without = decoded('b' + 'aab' + 'aab' + 'a');
    const under = decoded('b' + 'b' + 'ab' + 'aab' + 'b');
    expect(markLost(without, under).join('')).toBe('b' + 'l' + 'ar' + 'aab' + 'l');
    expect(markLost(without, without)).toEqual(markTokens(without));
  });

  it('keep the text, show line ends and leave out empty pieces', () => {
    const pieces = ['a<', '', 'b\n\n', ' c'];
    const view = { pieces, marks: markTokens(decoded('babb')), end: 'length' };
    const { markup } = drawTokens({ ...view, isCode: false, differing: new Set([3]) });
    expect(markup).toBe(
      '<div class="text"><span class="b">a&lt;</span>' +
        '<span class="r">b<span class="end">↵</span><span class="end">↵</span></span>\n\n' +
        '<span class="r d"> c</span><span class="end"> ■ length</span></div>',
    );
    expect(drawTokens({ ...view, isCode: true }).markup).toMatch(/^<div class="text code">/);
  });
});

describe('what is set as code', () => {
  it.each([
    ['code', 'Use a loop.', true],
    ['humaneval', '', true],
    [null, 'Here it is:\n\n```python\nreturn 1\n```', true],
    ['chat', 'def f(x):\n    return x + 1\n', true],
    ['math', 'Three pens cost 3 * 4 = 12 euros.', false],
    ['decoder', 'A decoder turns codes into words.', false],
    [null, 'Dear Anna,\n\nthank you for the book.', false],
  ])('by category %s and text %j: %s', (category, text, isCode) => {
    expect(looksLikeCode(category, text)).toBe(isCode);
  });
});
