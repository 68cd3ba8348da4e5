import { stripVTControlCharacters } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createColors } from '../terminal.js';
import { createWrapper, sayBars } from './demo-audit.js';

function wrap(pieces: readonly string[], width: number): string {
  let written = '';
  const wrapper = createWrapper((text) => (written += text), '| ', width);
  for (const piece of pieces) wrapper.add(piece);
  wrapper.finish();
  return written;
}

describe('wrapping', () => {
  it('breaks between words, wherever the pieces are cut', () => {
    expect(wrap(['one tw', 'o thr', 'ee'], 9)).toBe('| one two\n| three\n');
    expect(wrap(['toolongaword it is'], 6)).toBe('| toolongaword\n| it is\n');
  });

  it('keeps the indentation and the empty lines of code', () => {
    expect(wrap(['a:\n', '    b\n\n', '\tc\n'], 20)).toBe('| a:\n|     b\n| \n|     c\n');
  });

  it('gives colours no room', () => {
    const { green } = createColors(true);
    expect(wrap([green('on'), `${green('e')} ${green('two')}`], 7)).toBe(
      `| ${green('on')}${green('e')} ${green('two')}\n`,
    );
  });

  it('loses no word, and no line is wider than it may be', () => {
    const piece = fc
      .array(fc.constantFrom('a', 'bc', ' ', '\n'), { maxLength: 6 })
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const words = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '');
        const lines = wrap(pieces, 12).split('\n');
        expect(lines.flatMap((line) => words(line.slice(2)))).toEqual(words(pieces.join('')));
        for (const line of lines) {
          const shown = stripVTControlCharacters(line).slice(2);
          if (words(shown).length > 1) expect(shown.length).toBeLessThanOrEqual(12);
        }
      }),
    );
  });
});

describe('bars', () => {
  const draw = (...values: number[]): string[] => {
    const lines: string[] = [];
    const say = (line = ''): void => void lines.push(line);
    const paint = (text: string): string => text;
    sayBars(
      say,
      values.map((value) => ({ name: 'x', figure: String(value), value, paint })),
    );
    return lines;
  };

  it('are as long as their values', () => {
    expect(draw(10, 5)).toEqual([`  x  10  ${'█'.repeat(32)}`, `  x   5  ${'█'.repeat(16)}`]);
  });

  it('survive values of 0', () => {
    expect(draw(0, 0)).toEqual(['  x  0  ', '  x  0  ']);
  });
});
