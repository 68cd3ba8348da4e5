import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { referenceTarget } from '../../../test/support/model-folders.js';
import { matchPublished, maxBytesPerToken } from './published-tokenizers.js';
import { readTokenizerConfig } from './tokenizer-config.js';
import type { TokenizerFile } from './tokenizer-file.js';
import { readTokenizerFile } from './tokenizer-file.js';
import type { Tokenizer } from './tokenizer.js';
import { loadTokenizer } from './tokenizer.js';

type Json = Record<string, unknown>;

let file: TokenizerFile;
let tokenizer: Tokenizer;
beforeAll(async () => {
  file = await readTokenizerFile(referenceTarget, await readTokenizerConfig(referenceTarget));
  tokenizer = await loadTokenizer(referenceTarget);
});

const boundOf = (changes: Json): number | undefined =>
  maxBytesPerToken(matchPublished({ ...file.contents, ...changes }), file);

describe('minTokens', () => {
  it('is never more than there are, for any text', async () => {
    const texts = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 60 }),
      fc.string({ unit: 'binary', maxLength: 60 }),
      fc.array(fc.constantFrom(...file.ids.keys()), { maxLength: 20 }).map((pieces) => pieces.join('')),
      fc.nat(400).map((length) => ' '.repeat(length)),
    );
    await fc.assert(
      fc.asyncProperty(texts, async (text) => {
        const ids = await tokenizer.encode(text, { addSpecialTokens: false });
        expect(tokenizer.minTokens(text)).toBeLessThanOrEqual(ids.length);
      }),
      { numRuns: 500 },
    );
  });

  it('grows with the text', () => {
    expect(tokenizer.minTokens('')).toBe(0);
    const few = tokenizer.minTokens('word '.repeat(10_000));
    expect(few).toBeGreaterThan(100);
    expect(tokenizer.minTokens('word '.repeat(20_000))).toBeGreaterThanOrEqual(2 * few - 1);
  });
});

describe('maxBytesPerToken says nothing of a tokenizer', () => {
  it('that knows not every byte', () => {
    const ids = new Map(file.ids);
    for (const piece of ['<0x41>', 'A', 'Ġ']) ids.delete(piece);
    expect(maxBytesPerToken(matchPublished(file.contents), { ...file, ids })).toBeUndefined();
  });

  it.each<readonly [string, Json]>([
    ['that drops blanks', { pre_tokenizer: { type: 'WhitespaceSplit' } }],
    [
      'that removes what it splits at',
      { pre_tokenizer: { type: 'Split', pattern: { String: ' ' }, behavior: 'Removed', invert: false } },
    ],
    ['that strikes letters', { normalizer: { type: 'Replace', pattern: { String: 'a' }, content: '' } }],
    ['of no published structure', { normalizer: { type: 'StripAccents' } }],
    [
      'whose added tokens take the blanks beside them',
      { added_tokens: [{ id: 0, content: 'x', rstrip: true }] },
    ],
  ])('%s', (_, changes) => {
    expect(boundOf(changes)).toBeUndefined();
  });

  it('but allows for what a normal form shortens', () => {
    const plain = boundOf({})!;
    const published = { ...matchPublished(file.contents)!, shortens: true };
    expect(maxBytesPerToken(published, file)).toBe(4 * plain);
  });
});

describe('a text in a normal form', () => {
  const bytes = (text: string): number => Buffer.byteLength(text);

  it.each(['NFC', 'NFD', 'NFKC', 'NFKD'])('of %s has a quarter of the bytes or more', (form) => {
    // The planes in use: letters and symbols, ideographs; the rest is unassigned or has no normal forms.
    for (let code = 0; code <= 0x2ffff; code++) {
      if (code >= 0xd800 && code < 0xe000) continue;
      const letter = String.fromCodePoint(code);
      // Composed letters are longest when they are written out.
      for (const text of [letter, letter.normalize('NFD')])
        if (4 * bytes(text.normalize(form)) < bytes(text)) throw new Error(`U+${code.toString(16)}`);
      if (4 * bytes(letter.toLowerCase()) < bytes(letter)) throw new Error(`U+${code.toString(16)}`);
    }
  });
});

describe('published tokenizers', () => {
  it.each(['llama-2', 'llama-3', 'llama-3.1', 'mistral-v0.3', 'qwen2.5', 'qwen3', 'tinyllama', 'vicuna'])(
    '%s keep every byte, as far as their splits and normalizers go',
    (name) => {
      const path = join(import.meta.dirname, '../../../test/fixtures/chat', `${name}.json`);
      const { tokenizer: contents } = JSON.parse(readFileSync(path, 'utf8')) as { tokenizer: Json };
      const hasBytes = JSON.stringify(contents.pre_tokenizer ?? '').includes('ByteLevel');
      const letters = Array.from({ length: 512 }, (_, code) => String.fromCharCode(code));
      const pieces = Array.from(
        { length: 256 },
        (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
      );
      const ids = new Map((hasBytes ? letters : pieces).map((piece, id) => [piece, id]));
      const model = { ...(contents.model as Json), byte_fallback: !hasBytes };
      const published = matchPublished({ ...contents, model });
      expect(maxBytesPerToken(published, { ids, addedIds: new Map() })).toBeGreaterThan(0);
    },
  );
});
