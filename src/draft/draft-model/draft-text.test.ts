import { beforeAll, describe, expect, it } from 'vitest';
import { bundledTarget, writeFolder } from '../../../test/support/text/sample-folders.js';
import type { TinyVocabulary } from '../../../test/support/tiny-vocabularies.js';
import { byteLevel, sentencePiece, writeTokenizer } from '../../../test/support/tiny-vocabularies.js';
import { countUnfinished, placeTokens, toBytes, TokenBytes } from '../../text/tokenizer/token-bytes.js';
import { spellToken } from '../../text/text-stream.js';
import { loadTokenizer } from '../../text/tokenizer/tokenizer.js';
import { DraftText, encodeDraft, findStart } from './draft-text.js';

async function open(vocabulary: TinyVocabulary): Promise<TokenBytes> {
  const folder = writeFolder({});
  writeTokenizer(folder, vocabulary);
  return new TokenBytes(await loadTokenizer(folder), vocabulary.pieces.length);
}

let letters: TokenBytes;
let pieces: TokenBytes;
let bundled: TokenBytes;
beforeAll(async () => {
  [letters, pieces] = [await open(byteLevel), await open(sentencePiece)];
  bundled = new TokenBytes(await loadTokenizer(bundledTarget), 4096);
});

const idsOf = ({ tokenizer }: TokenBytes, ...names: readonly string[]): number[] =>
  names.map((name) => tokenizer.vocabulary().get(name)!);

describe('the bytes of tokens', () => {
  it('are those of their text', () => {
    for (const all of [letters, pieces, bundled])
      for (const id of all.tokenizer.vocabulary().values()) {
        if (id % 7 > 0 && id > 30) continue; // decoding is slow
        const { bytes } = spellToken(all.tokenizer, id);
        if (bytes !== null) expect([id, all.of(id)]).toEqual([id, Buffer.from(bytes).toString('latin1')]);
      }
  });

  it('prefer a piece to a token of one byte', () => {
    const [piece] = idsOf(bundled, 'a');
    expect(bundled.find('a')).toBe(piece);
    expect(bundled.of(idsOf(bundled, '<0x61>')[0]!)).toBe('a');
  });

  it('cover a text by the longest tokens, or not at all', () => {
    expect(letters.cover(' abcdx'.slice(0, 5))).toEqual(idsOf(letters, 'Ġab', 'cd'));
    expect(letters.cover('x')).toBeUndefined();
    expect(letters.cover('')).toEqual([]);
  });

  it('show a character that is not finished', () => {
    const euro = toBytes('€');
    expect([0, 1, 2, 3].map((end) => countUnfinished(`a${euro.slice(0, end)}`))).toEqual([0, 1, 2, 0]);
    expect(countUnfinished(toBytes('🍕').slice(0, 3))).toBe(3);
    expect(countUnfinished('\x82\x82\x82\x82')).toBe(0);
  });

  it('place tokens in a text, without a blank that was put in front', async () => {
    const ids = await pieces.tokenizer.encode('bca', { addSpecialTokens: false });
    expect(ids).toEqual(idsOf(pieces, '▁', 'bc', 'a'));
    expect(placeTokens(ids, pieces, 'bca')).toEqual([0, 2, 3]);
    expect(placeTokens(ids, pieces, 'bcaa')).toBeUndefined();
    expect(placeTokens(ids, pieces, 'BCA')).toBeUndefined();
  });
});

describe('the text so far in the tokens of a draft model', () => {
  async function readBy(
    draft: TokenBytes,
    target: TokenBytes,
    tokens: readonly number[],
  ): Promise<DraftText> {
    const text = new DraftText(target, draft, await findStart(draft));
    for (const token of tokens) text.push(token);
    return text;
  }

  it('is encoded in pieces as it is at once', async () => {
    const sentence = 'The cat sat on the mat, naïve and café-like; 12 + 30 = 42 €. '.repeat(3);
    const tokens = await bundled.tokenizer.encode(sentence);
    const growing = await readBy(pieces, bundled, []);
    const same = await readBy(bundled, bundled, []);
    for (const [index, token] of tokens.entries()) {
      growing.push(token);
      same.push(token);
      const atOnce = await readBy(pieces, bundled, tokens.slice(0, index + 1));
      expect(await growing.encode()).toEqual(await atOnce.encode());
      expect((await same.encode()).tokens.slice(0, -2)).toEqual(tokens.slice(0, Math.max(0, index - 1)));
    }
    expect((await same.encode()).tokens).toEqual(tokens);
  });

  it('begins as its tokenizer begins a text, and ends with the bytes of an unfinished character', async () => {
    const text = await readBy(pieces, letters, idsOf(letters, 'ab', 'â', 'Ĥ'));
    const start = idsOf(pieces, '<s>', '▁a', 'b');
    expect(await text.encode()).toEqual({
      tokens: [...start, ...idsOf(pieces, '<0xE2>', '<0x82>')],
      missing: '',
    });
    text.push(idsOf(letters, '¬')[0]!);
    expect((await text.encode()).tokens).toEqual([...start, ...idsOf(pieces, '<0xE2>', '<0x82>', '<0xAC>')]);
  });

  it('names the bytes that no token holds', async () => {
    const few = await open({ kind: 'byte-level', pieces: ['</s>', 'a', 'b', 'Ġ'] });
    const text = await readBy(few, letters, idsOf(letters, 'a', 'â'));
    expect(await text.encode()).toEqual({ tokens: [0, 1], missing: '\xe2' });
  });

  it('is one token before the first character', async () => {
    expect((await (await readBy(letters, pieces, idsOf(pieces, '<s>'))).encode()).tokens).toEqual([0]);
  });
});

describe('a drafted text in the tokens of the target', () => {
  const encode = (target: TokenBytes, before: readonly string[], text: string, isEnd = true) =>
    encodeDraft(target, idsOf(target, ...before), toBytes(text), isEnd);

  it('is cut as the target cuts it in the middle of a text', async () => {
    expect(await encode(pieces, ['▁a'], 'bca bc')).toEqual(idsOf(pieces, 'bc', 'a', '▁', 'bc'));
    expect(await encode(letters, ['Ġa'], 'efg abh!')).toEqual(idsOf(letters, 'efg', 'Ġab', 'h', '!'));
  });

  it('does not merge with a token that was emitted', async () => {
    expect(await encode(letters, ['c', 'a'], 'babcd')).toEqual(idsOf(letters, 'b', 'ab', 'cd'));
    expect(await encode(letters, ['e'], 'fgab')).toEqual(idsOf(letters, 'f', 'g', 'ab'));
    expect(await encode(pieces, ['d'], 'eagh')).toEqual(idsOf(pieces, 'e', 'a', 'gh'));
  });

  it('loses its last token, which more text could change, unless it is the only one or the end', async () => {
    expect(await encode(letters, ['h'], 'abc', false)).toEqual(idsOf(letters, 'ab'));
    expect(await encode(letters, ['h'], 'ab', false)).toEqual(idsOf(letters, 'ab'));
    expect(await encode(letters, ['h'], '', false)).toEqual([]);
  });

  it('begins and ends inside a character', async () => {
    const euro = toBytes('€');
    const before = idsOf(letters, '¬', 'a', 'â');
    expect(await encodeDraft(letters, before, `${euro.slice(1)}b${euro.slice(0, 2)}`, true)).toEqual(
      idsOf(letters, 'Ĥ', '¬', 'b'),
    );
  });

  it('is nothing where the target has no such characters', async () => {
    expect(await encode(letters, ['a'], 'xyz')).toEqual([]);
  });

  it('starts behind a special token', async () => {
    expect(await encode(pieces, ['b', '</s>'], 'bca')).toEqual(idsOf(pieces, 'bc', 'a'));
  });
});
