import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { createTextStream } from './text-stream.js';
import {
  bundledTarget,
  byteLevelTokenizer,
  metaspaceTokenizer,
  writeFolder,
} from '../../test/support/text/sample-folders.js';
import { loadTokenizer, type Tokenizer } from './tokenizer/tokenizer.js';

const texts = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('🍕', '世界', 'e\u0301', '👩‍👩‍👧', ' a', '  ', '\n', '\uFFFD', 'plain words here'),
);

/** Ids as a model could write them: encoded text, any id at all, and runs of what is hard (bytes, cut characters). */
function sequences(tokenizer: Tokenizer, hard: readonly number[]): fc.Arbitrary<Promise<number[]>> {
  const any = fc.integer({ min: 0, max: tokenizer.vocabularySize + 1 });
  const part = fc.oneof(
    texts.map((text) => tokenizer.encode(text, { addSpecialTokens: false })),
    fc.array(any, { maxLength: 12 }).map((ids) => Promise.resolve(ids)),
    fc.array(fc.constantFrom(...hard), { maxLength: 40 }).map((ids) => Promise.resolve(ids)),
  );
  return fc.array(part, { maxLength: 6 }).map(async (parts) => (await Promise.all(parts)).flat());
}

function stream(tokenizer: Tokenizer, prompt: readonly number[], ids: readonly number[]): string[] {
  const output = createTextStream(tokenizer, prompt);
  return [...ids.map((id) => output.push(id)), output.finish()];
}

const idsOf = (tokenizer: Tokenizer, accept: (id: number) => boolean): number[] =>
  [...tokenizer.vocabulary().values()].filter(accept);

describe.each([
  ['byte fallback', () => bundledTarget, (tokenizer: Tokenizer, id: number) => tokenizer.isByte(id)],
  ['byte level', () => writeFolder({ 'tokenizer.json': byteLevelTokenizer() }), () => true],
  ['metaspace', () => writeFolder({ 'tokenizer.json': metaspaceTokenizer() }), () => true],
])('a stream of a %s tokenizer', (_, folder, isHard) => {
  let tokenizer: Tokenizer;
  let hard: number[];
  beforeAll(async () => {
    tokenizer = await loadTokenizer(folder());
    hard = idsOf(tokenizer, (id) => isHard(tokenizer, id));
  });

  it('adds up to the decoding of the whole', async () => {
    await fc.assert(
      fc.asyncProperty(sequences(tokenizer, hard), async (sequence) => {
        const ids = await sequence;
        expect(stream(tokenizer, [], ids).join('')).toBe(tokenizer.decode(ids));
      }),
      { numRuns: 150 },
    );
  });

  it('continues a prompt where its text ended', async () => {
    const both = fc.tuple(sequences(tokenizer, hard), sequences(tokenizer, hard));
    await fc.assert(
      fc.asyncProperty(both, async ([first, second]) => {
        const [prompt, ids] = [await first, await second];
        const last = prompt.findLast((id) => tokenizer.hasToken(id) && !tokenizer.isSpecial(id));
        const endsInBytes = last !== undefined && tokenizer.isByte(last);
        const base = tokenizer.decode(prompt).replace(endsInBytes ? /\uFFFD+$/ : /\uFFFD$/, '');
        expect(stream(tokenizer, prompt, ids).join('')).toBe(
          tokenizer.decode([...prompt, ...ids]).slice(base.length),
        );
      }),
      { numRuns: 150 },
    );
  });

  it('never takes a character back or cuts one', async () => {
    await fc.assert(
      fc.asyncProperty(sequences(tokenizer, hard), async (sequence) => {
        const ids = await sequence;
        const whole = tokenizer.decode(ids);
        let length = 0;
        for (const piece of stream(tokenizer, [], ids)) {
          length += piece.length;
          // A cut surrogate pair would be a lone high surrogate at the end of the piece.
          expect(piece).not.toMatch(/[\uD800-\uDBFF]$/);
          expect(whole.slice(length - piece.length, length)).toBe(piece);
        }
        expect(length).toBe(whole.length);
      }),
      { numRuns: 150 },
    );
  });
});

describe('a stream of the bundled tokenizer', () => {
  it('gives words as they come and characters when they are complete', async () => {
    const tokenizer = await loadTokenizer(bundledTarget);
    const output = createTextStream(tokenizer, await tokenizer.encode('Answer:'));
    const ids = await tokenizer.encode('the 🍕 is', { addSpecialTokens: false });
    const pieces = ids.map((id) => output.push(id));
    expect(pieces).toEqual([' the', ' ', '', '', '', '', '🍕 is']);
    expect(output.finish()).toBe('');
    expect(() => output.push(5)).toThrow();
  });

  it('keeps the space at the seam of a prompt and drops it without one', async () => {
    const tokenizer = await loadTokenizer(bundledTarget);
    const [the] = await tokenizer.encode('the', { addSpecialTokens: false });
    expect(createTextStream(tokenizer).push(the!)).toBe('the');
    expect(createTextStream(tokenizer, [1]).push(the!)).toBe('the');
    expect(createTextStream(tokenizer, await tokenizer.encode('x')).push(the!)).toBe(' the');
    expect(createTextStream(tokenizer, await tokenizer.encode('🍕')).push(the!)).toBe(' the');
  });

  it('sees through special tokens, in a character and in any number', async () => {
    const tokenizer = await loadTokenizer(bundledTarget);
    const [the] = await tokenizer.encode('the', { addSpecialTokens: false });
    const pizza = (await tokenizer.encode('🍕', { addSpecialTokens: false })).filter((id) =>
      tokenizer.isByte(id),
    );
    expect(pizza).toHaveLength(4);
    const cut = [the!, ...pizza.slice(0, 2), 1, ...pizza.slice(2), the!];
    expect(stream(tokenizer, [], cut)).toEqual(['the', '', '', '', '', '', '🍕 the', '']);
    const many = [the!, ...Array.from({ length: 100 }, () => 2), the!];
    expect(stream(tokenizer, [], many).join('')).toBe('the the');
    expect(stream(tokenizer, many.slice(0, -1), [the!]).join('')).toBe(' the');
  });

  it('decodes a bounded number of tokens for each one pushed', async () => {
    const tokenizer = await loadTokenizer(bundledTarget);
    let decoded = 0;
    const counting: Tokenizer = {
      ...tokenizer,
      decode: (ids, options) => {
        decoded += ids.length;
        return tokenizer.decode(ids, options);
      },
    };
    const ids = Array.from({ length: 4000 }, (_, index) => 3 + ((index * 37) % 4000));
    const text = stream(counting, ids, [...ids, ...Array.from({ length: 2000 }, () => 200)]).join('');
    expect(text.length).toBeGreaterThan(4000);
    expect(decoded).toBeLessThan(6000 * 40);
  });
});
