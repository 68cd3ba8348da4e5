import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { maxJsonDepth, parseJsonText, showValue, toLogLine, visitPunctuation } from './json-text.js';

const nest = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);

describe('parseJsonText', () => {
  it('reads what JSON.parse reads, up to a depth that can be written again', () => {
    expect(parseJsonText('{"a":["[[[\\"",1]}')).toEqual({ a: ['[[["', 1] });
    expect(JSON.stringify(parseJsonText(nest(maxJsonDepth)))).toBe(nest(maxJsonDepth));
    expect(parseJsonText(JSON.stringify('['.repeat(maxJsonDepth + 1)))).toHaveLength(maxJsonDepth + 1);
  });

  it.each([nest(maxJsonDepth + 1), nest(100_000), `${'{"a":'.repeat(600)}1${'}'.repeat(600)}`])(
    'refuses what nests deeper: %.20s',
    (text) => {
      expect(() => parseJsonText(text)).toThrow('it nests more than 500 lists');
    },
  );

  it('fails as JSON.parse does', () => {
    expect(() => parseJsonText('{"a":')).toThrow(SyntaxError);
  });
});

describe('toLogLine', () => {
  it('says the same as JSON, without characters that steer a terminal', () => {
    const text = fc.string({
      unit: fc.constantFrom(
        '"',
        '\\',
        '\t',
        '\n',
        '\u001b',
        '\u007f',
        '\u009b',
        '\u202e',
        '\u2067',
        'é',
        '🌿',
      ),
    });
    fc.assert(
      fc.property(text, text, (name, value) => {
        const line = toLogLine({ [name]: value });
        expect(line).toMatch(/^[^\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]*\n$/);
        expect(JSON.parse(line)).toEqual({ [name]: value });
      }),
    );
  });
});

describe('visitPunctuation', () => {
  it('visits what is outside of strings, in any text', () => {
    const text = fc.string({ unit: fc.constantFrom('"', '\\', '{', 'a') });
    fc.assert(
      fc.property(text, (given) => {
        const visited: number[] = [];
        visitPunctuation(given, (_, position) => visited.push(position));
        // A string, perhaps without an end, or another character.
        const outside = [...given.matchAll(/"(?:[^"\\]|\\[^])*(?:"|\\?$)|[^]/g)].filter(
          ([part]) => !part.startsWith('"'),
        );
        expect(visited).toEqual(outside.map(({ index }) => index));
      }),
      { numRuns: 1000, seed: 13 },
    );
  });
});

describe('showValue', () => {
  it.each([
    [{ a: [1, null] }, '{"a":[1,null]}'],
    ['x'.repeat(5000), `"${'x'.repeat(119)}...`],
    [undefined, 'nothing'],
  ])('%.40j', (value, shown) => {
    expect(showValue(value)).toBe(shown);
  });
});
