import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';
import { spellToken } from '../text-stream.js';
import type { Tokenizer } from './tokenizer.js';
import { loadTokenizer } from './tokenizer.js';

const bundled = await loadTokenizer(resolve(import.meta.dirname, '../../../models/reference/target'));

it('a token has its text with the blank before it, and its bytes', () => {
  const id = bundled.vocabulary().get('▁the')!;
  expect(spellToken(bundled, id)).toEqual({ text: ' the', bytes: [32, 116, 104, 101] });
  expect(spellToken(bundled, bundled.eosId!)).toEqual({ text: '</s>', bytes: [60, 47, 115, 62] });
});

it('a byte is text where it is a character, else it is written out', () => {
  const id = (piece: string): number => bundled.vocabulary().get(piece)!;
  expect(spellToken(bundled, id('<0x41>'))).toEqual({ text: 'A', bytes: [65] });
  expect(spellToken(bundled, id('<0xE2>'))).toEqual({ text: 'bytes:\\xe2', bytes: [0xe2] });
});

it('an id beyond the vocabulary stands for nothing', () => {
  expect(spellToken(bundled, 1e6)).toEqual({ text: '', bytes: null });
});

it('the spellings of an encoded text make up the text', async () => {
  const text = join('The quick fox, 12 times:', 'naïve 🙂\n\tdone');
  const ids = await bundled.encode(text, { addSpecialTokens: false });
  const bytes = ids.flatMap((id) => spellToken(bundled, id).bytes ?? []);
  expect(Buffer.from(bytes).toString()).toBe(` ${text}`);
});

it('parts of characters in a byte-level vocabulary have the bytes that their letters stand for', () => {
  const pieces = ['âĤ', '¬', 'Ġa'];
  const byteLevel = {
    hasToken: (id: number) => id < pieces.length,
    tokenText: (id: number) => pieces[id]!,
    isSpecial: () => false,
    isByte: () => false,
    decode: (ids: readonly number[]) => ids.map((id) => ['\uFFFD', '\uFFFD', ' a'][id]!).join(''),
  } as unknown as Tokenizer;
  expect(spellToken(byteLevel, 0)).toEqual({ text: 'bytes:\\xe2\\x82', bytes: [0xe2, 0x82] });
  expect(spellToken(byteLevel, 1)).toEqual({ text: 'bytes:\\xac', bytes: [0xac] });
  expect(spellToken(byteLevel, 2)).toEqual({ text: ' a', bytes: [32, 97] });
});
