import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../../core/errors.js';
import { parseSentencePiece, readSentencePiece } from './sentencepiece-file.js';
import { convertSentencePiece } from './sentencepiece.js';
import { nestedSentencePiece } from '../../../test/fuzz/corpus/bombs.js';
import { writeFolder } from '../../../test/support/text/sample-folders.js';
import type { WrittenModel } from '../../../test/support/text/write-sentencepiece.js';
import {
  bytesField,
  floatField,
  pieceField,
  smallPieces,
  varintField,
  writeSentencePiece,
} from '../../../test/support/text/write-sentencepiece.js';
import { loadTokenizer, type Tokenizer } from './tokenizer.js';

/** As transformers does, with time to spare. */
function listMergesOneByOne(pieces: readonly { readonly piece: string; readonly score: number }[]): unknown {
  const ids = new Map(pieces.map(({ piece }, id) => [piece, id]));
  const merges = pieces.flatMap(({ piece, score }) => {
    const characters = Array.from(piece);
    const cuts = characters.map((_, cut) => ({
      left: characters.slice(0, cut).join(''),
      right: characters.slice(cut).join(''),
      ...{ score, lefts: cut, rights: characters.length - cut },
    }));
    return cuts
      .filter(({ left, right }) => ids.has(left) && ids.has(right))
      .sort((a, b) => ids.get(a.left)! - ids.get(b.left)! || ids.get(a.right)! - ids.get(b.right)!);
  });
  merges.sort((a, b) => b.score - a.score || b.lefts - a.lefts || b.rights - a.rights);
  return merges.map(({ left, right }) => [left, right]);
}

function writeModelFolder(model: Partial<WrittenModel> = {}, files: Record<string, unknown> = {}): string {
  const folder = writeFolder(files);
  writeFileSync(join(folder, 'tokenizer.model'), writeSentencePiece({ pieces: smallPieces, ...model }));
  return folder;
}

async function piecesOf(tokenizer: Tokenizer, text: string): Promise<string> {
  const ids = await tokenizer.encode(text);
  return ids.map((id) => tokenizer.tokenText(id)).join(' ');
}

describe('a folder with tokenizer.model alone', () => {
  it('has the ids, special tokens and names of a Llama tokenizer', async () => {
    const tokenizer = await loadTokenizer(writeModelFolder());
    expect([tokenizer.bosId, tokenizer.eosId]).toEqual([1, 2]);
    expect([...tokenizer.specialIds]).toEqual([0, 1, 2]);
    expect(tokenizer.specialTokens).toEqual({ bos_token: '<s>', eos_token: '</s>', unk_token: '<unk>' });
    expect(tokenizer.vocabularySize).toBe(smallPieces.length);
    smallPieces.forEach(({ piece }, id) => {
      expect(tokenizer.tokenText(id)).toBe(piece);
    });
  });

  // sentencepiece.SentencePieceProcessor(FILE).encode(text, out_type=str) of version 0.2 on the very file
  it.each([
    ['abc', '<s> ▁a bc'],
    ['cabc', '<s> ▁ c abc'],
    ['ab', '<s> ▁ab'],
    ['aab', '<s> ▁a ab'],
    ['cab', '<s> ▁ c ab'],
    ['a  ab', '<s> ▁a ▁ ▁ab'],
    ['bcab abc', '<s> ▁ bc ab ▁a bc'],
    ['é', '<s> ▁ é'],
    ['à', '<s> ▁ <0xC3> <0xA0>'],
    ['', '<s>'],
  ])('encodes %j as %s', async (text, pieces) => {
    expect(await piecesOf(await loadTokenizer(writeModelFolder()), text)).toBe(pieces);
  });

  it.each([
    [{}, '<s> ▁a </s> ▁a <s>'],
    [{ legacy: true }, '<s> ▁a </s> ▁a <s>'],
    [{ legacy: false }, '<s> ▁a </s> a <s>'],
    [{ add_prefix_space: false }, '<s> a </s> a <s>'],
    [{ legacy: false, add_prefix_space: false }, '<s> a </s> a <s>'],
    [{ tokenizer_class: 'LlamaTokenizer', add_bos_token: false }, '▁a </s> ▁a <s>'],
    [{ tokenizer_class: 'LlamaTokenizer', add_eos_token: true }, '<s> ▁a </s> ▁a <s> </s>'],
  ])('follows tokenizer_config.json: %j', async (config, pieces) => {
    const tokenizer = await loadTokenizer(writeModelFolder({}, { 'tokenizer_config.json': config }));
    expect(await piecesOf(tokenizer, 'a</s>a<s>')).toBe(pieces);
  });

  it('decodes back what it encoded', async () => {
    const tokenizer = await loadTokenizer(writeModelFolder());
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: fc.constantFrom('a', 'b', 'c', ' ', 'é', '🍕', '\n', '比') }),
        async (text) => {
          expect(tokenizer.decode(await tokenizer.encode(text))).toBe(text);
        },
      ),
    );
  });

  it('takes added tokens from added_tokens.json', async () => {
    const id = smallPieces.length;
    const tokenizer = await loadTokenizer(writeModelFolder({}, { 'added_tokens.json': { '<pad>': id } }));
    expect(await tokenizer.encode('<pad>', { addSpecialTokens: false })).toEqual([id]);
  });
});

describe('the conversion', () => {
  it('cuts pieces by code points and puts longer left sides first among equal scores', () => {
    const pieces = ['🍕', 'a', 'b', '🍕a', 'ab', '🍕ab'].map((piece) => ({ piece }));
    const model = parseSentencePiece(writeSentencePiece({ pieces }), 'x.model');
    const options = { legacy: true, addPrefixSpace: true };
    expect(convertSentencePiece(model, 'x.model', options)).toMatchObject({
      model: {
        merges: [
          ['🍕a', 'b'],
          ['🍕', 'ab'],
          ['🍕', 'a'],
          ['a', 'b'],
        ],
      },
    });
  });

  it('has the merges of every cut of every piece, whatever the pieces', () => {
    const unit = fc.constantFrom('a', 'b', '▁', 'é', '🍕', '🍔');
    const list = fc.uniqueArray(fc.string({ unit, minLength: 1, maxLength: 6 }), {
      minLength: 1,
      maxLength: 60,
    });
    fc.assert(
      fc.property(list, fc.array(fc.nat(3)), (texts, scores) => {
        const pieces = texts.map((piece, id) => ({ piece, score: scores[id] ?? 0 }));
        const model = parseSentencePiece(writeSentencePiece({ pieces }), 'x.model');
        const converted = convertSentencePiece(model, 'x.model', { legacy: true, addPrefixSpace: true });
        expect(converted).toMatchObject({ model: { merges: listMergesOneByOne(pieces) } });
      }),
    );
  });

  it('refuses pieces that are made of each other in too many ways', () => {
    const model = parseSentencePiece(nestedSentencePiece(1390), 'x.model');
    expect(() => convertSentencePiece(model, 'x.model', { legacy: true, addPrefixSpace: true })).toThrow(
      /^x.model has 1390 pieces that are made of each other in too many ways/,
    );
  });

  it('reads a run of each length up to 64, as published models have', () => {
    const model = parseSentencePiece(nestedSentencePiece(64), 'x.model');
    const converted = convertSentencePiece(model, 'x.model', { legacy: true, addPrefixSpace: true });
    expect((converted as { model: { merges: unknown[] } }).model.merges).toHaveLength((64 * 63) / 2);
  });

  it('matches user-defined and control pieces whole', async () => {
    const pieces = [...smallPieces, { piece: '[X]', type: 3 }, { piece: '[Y]', type: 4 }];
    const tokenizer = await loadTokenizer(writeModelFolder({ pieces }));
    expect(await piecesOf(tokenizer, 'a[X]a[Y]')).toBe('<s> ▁a [X] ▁a [Y]');
    expect(tokenizer.isSpecial(pieces.length - 2)).toBe(true);
    expect(tokenizer.isSpecial(pieces.length - 1)).toBe(false);
  });

  it.each([
    [{ algorithm: 1 }, /tokenizer\.model is a SentencePiece model of the type unigram; bpe, as Llama's/],
    [{ algorithm: 4 }, /of the type char/],
    [{ algorithm: 77 }, /of the type number 77/],
    [{ charsmap: 'nfkc' }, /normalises its text \(it maps characters\)/],
    [{ removeExtraWhitespace: true }, /normalises its text \(it removes extra spaces\)/],
  ])('refuses by name: %j', async (changes, message) => {
    await expect(loadTokenizer(writeModelFolder(changes))).rejects.toMatchObject({
      code: 'text',
      message: expect.stringMatching(message) as string,
      hint: expect.stringContaining('AutoTokenizer.from_pretrained') as string,
    });
  });

  it('refuses the model of another tokenizer class', async () => {
    const folder = writeModelFolder({}, { 'tokenizer_config.json': { tokenizer_class: 'GemmaTokenizer' } });
    await expect(loadTokenizer(folder)).rejects.toThrow(/belongs to a GemmaTokenizer; only that of a Llama/);
  });
});

describe('a damaged tokenizer.model', () => {
  const piece = { piece: 'a' };
  it.each<[string, Buffer, RegExp]>([
    ['nothing in it', Buffer.alloc(0), /it has no pieces/],
    ['text', Buffer.from('version https://git-lfs.github.com/spec/v1\n'), /not a SentencePiece model/],
    ['two equal pieces', writeSentencePiece({ pieces: [piece, piece] }), /pieces 0 and 1 are both "a"/],
    ['a piece without text', bytesField(1, floatField(2, 1)), /piece 0 has no text/],
    ['a score that is none', pieceField({ piece: 'a', score: NaN }), /piece 0 has the score NaN/],
    ['a score as a varint', bytesField(1, varintField(2, 1)), /score of piece 0 is no float/],
    ['a type that is none', pieceField({ piece: 'a', type: 7 }), /piece 0 has the type 7/],
    ['a piece that is too long', pieceField({ piece: 'a'.repeat(5000) }), /piece 0 has 5000 bytes/],
    ['a piece that is not UTF-8', pieceField({ piece: Buffer.from([0xff]) }), /piece 0 is not UTF-8/],
    ['a varint for pieces', varintField(1, 3), /field 1 is a varint where bytes were expected/],
    [
      'a length beyond the end',
      Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
      /field of \d+ bytes/,
    ],
    ['a number without end', Buffer.alloc(12, 0xff), /more than 10 bytes/],
    ['a group', Buffer.from([0x0b]), /field 1 has the wire type 3/],
    ['field 0', Buffer.from([0x00, 0x00]), /a field has the number 0/],
  ])('is refused in one sentence: %s', (_, bytes, message) => {
    expect(() => parseSentencePiece(bytes, 'x.model')).toThrow(MistletoeError);
    expect(() => parseSentencePiece(bytes, 'x.model')).toThrow(message);
  });

  it('never fails in any other way', () => {
    const whole = writeSentencePiece({ pieces: smallPieces.slice(250) });
    const attempt = (bytes: Buffer): void => {
      try {
        parseSentencePiece(bytes, 'x.model');
      } catch (failure) {
        expect(failure).toBeInstanceOf(MistletoeError);
      }
    };
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(255), (at, value) => {
        attempt(whole.subarray(0, at));
        const changed = Buffer.from(whole);
        changed[at] = value;
        attempt(changed);
      }),
    );
  });

  it('is refused where it is no file or too large to be one', async () => {
    await expect(readSentencePiece(writeFolder({}))).rejects.toThrow(/it is not a regular file/);
    expect(await readSentencePiece(join(writeFolder({}), 'none'))).toBeUndefined();
  });
});
