import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TokenOrigin } from '../decode/answer.js';
import { createColors, openColors } from './terminal.js';
import { createTokenMarker } from './generate-output.js';

type Token = readonly [text: string, origin: TokenOrigin];

function markAll(tokens: readonly Token[], { color = false, brackets = false }): string {
  const marker = createTokenMarker(createColors(color), brackets);
  return openColors(tokens.map(([text, origin]) => marker.mark(text, origin)).join('') + marker.finish());
}

describe('accepted draft tokens', () => {
  const tokens: readonly Token[] = [
    ['def', 'target'],
    [' reverse', 'accepted'],
    ['_string', 'accepted'],
    ['(s', 'bonus'],
    ['):', 'accepted'],
    ['\n', 'accepted'],
    ['  ', 'accepted'],
    [' ', 'bonus'],
    ['', 'accepted'],
    [' ', 'accepted'],
    ['return', 'bonus'],
    [' s', 'accepted'],
    ['\n', 'accepted'],
    ['x', 'accepted'],
  ];

  it('stand between brackets, one pair a step, blanks outside', () => {
    expect(markAll(tokens, { brackets: true })).toBe('def ⟨reverse_string⟩(s⟨):⟩\n    return ⟨s\nx⟩');
  });

  it('are green, and no colour runs over a blank or the end of a line', () => {
    const green = (text: string): string => `\u001b[32m${text}\u001b[39m`;
    expect(
      markAll(
        [
          ['a', 'accepted'],
          ['\n b\n', 'accepted'],
          ['c', 'bonus'],
          ['d', 'target'],
        ],
        { color: true },
      ),
    ).toBe(`${green('a')}\n ${green('b')}\ncd`);
  });

  it('are the text itself without either, and marks take nothing from it', () => {
    const token = fc.tuple(
      fc.array(fc.constantFrom('a', 'b ', ' ', '\n', ''), { maxLength: 4 }).map((parts) => parts.join('')),
      fc.constantFrom<TokenOrigin>('target', 'accepted', 'bonus'),
    );
    fc.assert(
      fc.property(fc.array(token), (list) => {
        const text = list.map(([part]) => part).join('');
        expect(markAll(list, {})).toBe(text);
        const marked = markAll(list, { brackets: true });
        expect(marked.replace(/[⟨⟩]/g, '')).toBe(text);
        expect(marked).toMatch(/^[^⟨⟩]*(⟨\S([^⟨⟩]*\S)?⟩[^⟨⟩]*)*$/);
      }),
    );
  });
});
