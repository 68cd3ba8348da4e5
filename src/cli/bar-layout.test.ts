import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { layOutBar as layOut, widthOf } from './progress.js';

interface Content {
  readonly label: string;
  readonly done: number;
  readonly total: number;
  readonly words: readonly string[];
}

const layOutBar = ({ words, ...phase }: Content, columns: number): string =>
  layOut({ ...phase, show: String }, words, columns);

const content = {
  label: 'audit',
  done: 3,
  total: 12,
  words: ['left 4 min', 'drafter eagle3', 'prompt code-1', 'arm attack', 'step 7/40', 'KL 0.031'],
};
const full = '██████░░░░░░░░░░░░░░░░░░';

describe('a bar', () => {
  it('shows everything where there is room', () => {
    expect(layOutBar(content, 200)).toBe(`audit  ${full}  3/12  ${content.words.join('  ')}`);
  });

  it('shrinks before a word goes', () => {
    const whole = widthOf(layOutBar(content, 200));
    expect(layOutBar(content, whole + 1)).toContain(full);
    const narrower = layOutBar(content, whole - 11);
    expect(narrower).toMatch(/ {2}█{3}░{9} {2}3\/12 /);
    expect(narrower).toContain('KL 0.031');
  });

  it('drops words from the least important to the most, and the time left last', () => {
    const seen: number[] = [];
    for (let columns = 120; columns >= 20; columns--) {
      const line = layOutBar(content, columns);
      const shown = content.words.map((word) => line.includes(word));
      const kept = shown.lastIndexOf(true) + 1;
      expect(shown).toEqual(content.words.map((_, index) => index < kept));
      expect(line).toContain('3/12  left 4 min');
      seen.push(kept);
    }
    expect(seen).toEqual([...seen].sort((left, right) => right - left));
    expect([seen[0], seen.at(-1)]).toEqual([6, 1]);
  });

  it('gives up itself, then its label, then cuts', () => {
    expect(layOutBar(content, 30)).toBe('audit  3/12  left 4 min');
    expect(layOutBar(content, 20)).toBe('3/12  left 4 min');
    expect(layOutBar(content, 10)).toBe('3/12  le…');
    expect(layOutBar(content, 0)).toBe('…');
  });

  it('never exceeds the width, whatever it is told', () => {
    const word = fc.string({ unit: 'grapheme', maxLength: 60 });
    fc.assert(
      fc.property(
        fc.record({
          label: fc.constant('audit'),
          done: fc.nat(99),
          total: fc.nat(99),
          words: fc.array(word),
        }),
        fc.integer({ min: 1, max: 200 }),
        (any, columns) => {
          const line = layOutBar(any, columns);
          expect(widthOf(line)).toBeLessThanOrEqual(Math.max(1, columns - 1));
          expect(line).not.toMatch(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/u);
        },
      ),
    );
  });

  it('shortens a word that is a sentence, so that others stay', () => {
    const line = layOutBar(
      { ...content, words: ['left 4 min', `prompt ${'x'.repeat(90)}`, 'arm attack'] },
      90,
    );
    expect(line).toContain(`prompt ${'x'.repeat(20)}…  arm attack`);
  });

  it('is full where there is nothing to do', () => {
    expect(layOutBar({ label: 'x', done: 0, total: 0, words: [] }, 80)).toBe(`x  ${'█'.repeat(24)}  0/0`);
  });
});

describe('widths', () => {
  it.each([
    ['', 0],
    ['abc', 3],
    ['naïve', 5],
    ['n\u0303', 1],
    ['世界', 4],
    ['👋', 2],
    ['한글', 4],
    ['\u200b', 0],
  ])('%j takes %i columns', (text, width) => {
    expect(widthOf(text)).toBe(width);
  });
});
