import { describe, expect, it } from 'vitest';
import type { AcceptanceSummary, AnswerRecord } from '../../../audit/result.js';
import { drawTokens, findDifferences, markTokens } from './tokens.js';

const answerOf = (pieces: readonly string[], origins: string): AnswerRecord => ({
  text: pieces.join(''),
  tokenIds: pieces.map((_, index) => index),
  pieces,
  origins,
  finishReason: 'length',
});
const acceptance = { histogram: [1, 0, 1] } as unknown as AcceptanceSummary;

describe('the marks of tokens', () => {
  it('tell rejected drafts from a bonus and from the first token', () => {
    // Drafts of depth 2: prefill, nothing accepted, one accepted, both accepted, a draft cut at the end.
    const origins = 'b' + 'b' + 'ab' + 'aab' + 'a';
    expect(markTokens(answerOf([], origins), acceptance).join('')).toBe('b' + 'r' + 'ar' + 'aab' + 'a');
  });

  it('name tokens that the other answer lacks', () => {
    const differing = findDifferences([1, 2, 3, 4], [1, 9, 9, 3, 4, 5]);
    expect([...differing.left]).toEqual([1]);
    expect([...differing.right]).toEqual([1, 2, 5]);
  });

  it('keep the text, show line ends and leave out empty pieces', () => {
    const { markup } = drawTokens(answerOf(['a<', '', 'b\n\n', ' c'], 'babb'), acceptance, new Set([3]));
    expect(markup).toBe(
      '<div class="text"><span class="b">a&lt;</span>' +
        '<span class="r">b<span class="end">↵</span><span class="end">↵</span></span>\n\n' +
        '<span class="r d"> c</span><span class="end"> ■ length</span></div>',
    );
  });
});
