import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { Tokenizer as Library } from 'tokenizers';
import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../../core/errors.js';
import { findVocabularyDifference, loadTokenizer } from './tokenizer.js';
import {
  bundledTarget,
  byteLevelTokenizer,
  metaspaceTokenizer,
  writeFolder,
} from '../../../test/support/text/sample-folders.js';

const bundledFile = (): Record<string, unknown> =>
  JSON.parse(readFileSync(join(bundledTarget, 'tokenizer.json'), 'utf8')) as Record<string, unknown>;
const config = { bos_token: '<s>', eos_token: { content: '</s>' } };

describe('the bundled tokenizer', () => {
  it('knows its special tokens and its size', async () => {
    const tokenizer = await loadTokenizer(bundledTarget);
    expect(tokenizer.vocabularySize).toBe(4096);
    expect([tokenizer.bosId, tokenizer.eosId]).toEqual([1, 2]);
    expect([...tokenizer.specialIds]).toEqual([0, 1, 2]);
    expect(tokenizer.tokenText(3)).toBe('<0x00>');
    expect(tokenizer.isByte(3)).toBe(true);
    expect(tokenizer.isByte(261)).toBe(false);
    expect(tokenizer.vocabulary().get('<s>')).toBe(1);
    expect(() => tokenizer.tokenText(4096)).toThrow(/4096.*below 4096/);
  });

  it('encodes with the beginning of sequence unless told otherwise', async () => {
    const tokenizer = await loadTokenizer(bundledTarget);
    const ids = await tokenizer.encode('Hello world');
    expect(ids[0]).toBe(1);
    expect(await tokenizer.encode('Hello world', { addSpecialTokens: false })).toEqual(ids.slice(1));
    expect(await tokenizer.encodeBatch(['Hello world', ''])).toEqual([ids, [1]]);
  });

  it('decodes back exactly what it encoded', async () => {
    const tokenizer = await loadTokenizer(bundledTarget);
    const texts = [
      '',
      ' leading and trailing ',
      'two  spaces , and a tab\t.\r\n\n  def f(x):\n    return x',
      '比萨 🍕👩‍👩‍👧 e\u0301 naïve \u0000 \uFFFD',
      "don't clean up , this !",
    ];
    for (const text of texts) expect(tokenizer.decode(await tokenizer.encode(text))).toBe(text);
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme' }), async (text) => {
        fc.pre(!/<(unk|\/?s)>|▁/.test(text));
        expect(tokenizer.decode(await tokenizer.encode(text))).toBe(text);
      }),
    );
  });

  it('writes special tokens only when asked', async () => {
    const tokenizer = await loadTokenizer(bundledTarget);
    const ids = await tokenizer.encode('Hi');
    expect(tokenizer.decode([...ids, 2])).toBe('Hi');
    expect(tokenizer.decode([...ids, 2], { skipSpecialTokens: false })).toBe('<s> Hi</s>');
    expect(tokenizer.decode([...ids, 50_000])).toBe('Hi');
  });
});

describe.each([
  ['bundled', bundledFile],
  ['byte-level', byteLevelTokenizer],
  ['metaspace', metaspaceTokenizer],
  ['without a decoder', () => ({ ...bundledFile(), decoder: null })],
])('decoding, %s', (_, file) => {
  it('agrees with the decode of the library and with its vocabulary', async () => {
    const contents = JSON.stringify(file());
    const library = Library.fromString(contents);
    const tokenizer = await loadTokenizer(writeFolder({ 'tokenizer.json': contents }));
    expect(new Map(Object.entries(library.getVocab(true)))).toEqual(tokenizer.vocabulary());
    const id = fc.integer({ min: 0, max: tokenizer.vocabularySize + 2 });
    await fc.assert(
      fc.asyncProperty(fc.array(id), fc.boolean(), async (ids, skipSpecialTokens) => {
        expect(tokenizer.decode(ids, { skipSpecialTokens })).toBe(
          await library.decode(ids, skipSpecialTokens),
        );
      }),
    );
  });
});

describe('loading', () => {
  it('ignores truncation and padding that the file carries', async () => {
    const truncation = { direction: 'Right', max_length: 2, strategy: 'LongestFirst', stride: 0 };
    const padding = {
      strategy: { Fixed: 40 },
      direction: 'Right',
      pad_to_multiple_of: null,
      pad_id: 0,
      pad_type_id: 0,
      pad_token: '<s>',
    };
    const file = byteLevelTokenizer({ truncation, padding });
    const tokenizer = await loadTokenizer(
      writeFolder({ 'tokenizer.json': file, 'tokenizer_config.json': config }),
    );
    expect(await tokenizer.encode('abcdef')).toHaveLength(7);
  });

  it('has no named special tokens without tokenizer_config.json', async () => {
    const tokenizer = await loadTokenizer(writeFolder({ 'tokenizer.json': byteLevelTokenizer() }));
    expect([tokenizer.bosId, tokenizer.eosId]).toEqual([undefined, undefined]);
    expect(tokenizer.isSpecial(0)).toBe(true);
  });

  it.each([
    [{ add_bos_token: false }, [], []],
    [{ add_bos_token: true, add_eos_token: true }, [0], [1]],
    [{ add_eos_token: true }, [0], [1]],
    [{}, [0], []],
  ])('lets the flags of a Llama tokenizer class decide: %j', async (flags, before, after) => {
    const folder = writeFolder({
      'tokenizer.json': byteLevelTokenizer(),
      'tokenizer_config.json': { ...config, ...flags, tokenizer_class: 'LlamaTokenizerFast' },
    });
    const tokenizer = await loadTokenizer(folder);
    const plain = await tokenizer.encode('ab', { addSpecialTokens: false });
    expect(plain).toHaveLength(2);
    expect(await tokenizer.encode('ab')).toEqual([...before, ...plain, ...after]);
  });

  const file = byteLevelTokenizer();
  it.each([
    ['no tokenizer', {}, /tokenizer\.json does not exist, and neither does a tokenizer\.model/],
    [
      'a model that the library does not know',
      { 'tokenizer.json': { ...file, model: { type: 'Wonder', vocab: { a: 0 } } } },
      /not a usable tokenizer/,
    ],
    ['truncated JSON', { 'tokenizer.json': '{"version": "1.0", "mod' }, /tokenizer\.json is not valid JSON/],
    [
      'JSON of something else',
      { 'tokenizer.json': '{"version": "1.0"}' },
      /tokenizer\.json has no vocabulary that can be read/,
    ],
    [
      'a corrupt tokenizer_config.json',
      { 'tokenizer.json': file, 'tokenizer_config.json': '{' },
      /config\.json is not valid/,
    ],
    [
      'a bos_token of the wrong kind',
      { 'tokenizer.json': file, 'tokenizer_config.json': { bos_token: 7 } },
      /tokenizer_config\.json: bos_token is not as expected/,
    ],
    [
      'an eos_token that does not exist',
      { 'tokenizer.json': file, 'tokenizer_config.json': { eos_token: '<end>' } },
      /names "<end>" as eos_token/,
    ],
    [
      'added tokens of another tokenizer',
      {
        'tokenizer.json': file,
        'tokenizer_config.json': { added_tokens_decoder: { 5: { content: '<s>' } } },
      },
      /"<s>" the id 5, but the tokenizer gives it 0/,
    ],
  ])('refuses %s', async (_, files, message) => {
    const failure = await loadTokenizer(writeFolder(files)).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(MistletoeError);
    expect(failure).toMatchObject({ code: 'text', message: expect.stringMatching(message) as string });
  });
});

describe('findVocabularyDifference', () => {
  it('names the first id on which two tokenizers differ', async () => {
    const left = await loadTokenizer(writeFolder({ 'tokenizer.json': byteLevelTokenizer() }));
    const right = await loadTokenizer(writeFolder({ 'tokenizer.json': metaspaceTokenizer() }));
    expect(findVocabularyDifference(left, left)).toBeUndefined();
    expect(findVocabularyDifference(left, right)).toEqual({ id: 2, left: left.tokenText(2), right: '<unk>' });
  });
});

describe('tokens that only the files beside tokenizer.json list', () => {
  const size = Object.keys((byteLevelTokenizer() as { model: { vocab: object } }).model.vocab).length;
  const load = (files: Record<string, unknown>) =>
    loadTokenizer(writeFolder({ 'tokenizer.json': byteLevelTokenizer(), ...files }));
  const decoder = (tokens: Record<number, object>) => ({
    'tokenizer_config.json': { added_tokens_decoder: tokens },
  });

  it('are added at their ids, with their flags', async () => {
    const tokenizer = await load(
      decoder({
        [size + 1]: { content: '<think>', special: false, normalized: false },
        [size]: { content: '<|end|>', special: true, rstrip: true },
      }),
    );
    expect(tokenizer.vocabularySize).toBe(size + 2);
    expect(await tokenizer.encode('<|end|>  <think>', { addSpecialTokens: false })).toEqual([size, size + 1]);
    expect([tokenizer.isSpecial(size), tokenizer.isSpecial(size + 1)]).toEqual([true, false]);
    expect(tokenizer.decode([size, size + 1])).toBe('<think>');
  });

  it('are matched whole where the vocabulary has them as ordinary pieces', async () => {
    const plain = await load({});
    const [id, piece] = [size - 1, plain.tokenText(size - 1)];
    expect(await plain.encode(piece, { addSpecialTokens: false })).not.toEqual([id]);
    const files = [
      decoder({ [id]: { content: piece, special: false } }),
      { 'tokenizer_config.json': { eos_token: piece } },
    ];
    for (const beside of files) {
      expect(await (await load(beside)).encode(piece, { addSpecialTokens: false })).toEqual([id]);
    }
  });

  it('are not an empty piece, where no name is given to a special token', async () => {
    const file = byteLevelTokenizer() as { model: { vocab: Record<string, number> } };
    file.model.vocab[''] = size;
    const tokenizer = await loadTokenizer(writeFolder({ 'tokenizer.json': file }));
    expect(tokenizer.isSpecial(size)).toBe(false);
  });

  it('come from added_tokens.json where tokenizer_config.json lists none', async () => {
    const old = { 'added_tokens.json': { '<pad>': size }, 'special_tokens_map.json': { pad_token: '<pad>' } };
    const tokenizer = await load(old);
    expect(await tokenizer.encode('<pad>', { addSpecialTokens: false })).toEqual([size]);
    expect(tokenizer.isSpecial(size)).toBe(true);
    expect(tokenizer.specialTokens.pad_token).toBe('<pad>');
    const newer = await load({ ...old, ...decoder({ 0: { content: '<s>', special: true } }) });
    expect(newer.hasToken(size)).toBe(false);
  });

  it.each([
    [decoder({ [size + 1]: { content: '<gap>' } }), /"<gap>" the id \d+, .*the next free id is/],
    [decoder({ 5: { content: '<taken>' } }), /"<taken>" the id 5, but the tokenizer has ".+" there/],
    [{ 'added_tokens.json': { '</s>': 9 } }, /added_tokens\.json of .*"<\/s>" the id 9, .* gives it 1/],
    [{ 'added_tokens.json': { '<a>': size, '<b>': size } }, /the id \d+ to "<a>" and to "<b>"/],
    [{ 'added_tokens.json': { '<a>': -1 } }, /added_tokens\.json: <a> is not as expected/],
    [{ 'added_tokens.json': '[' }, /added_tokens\.json is not valid JSON/],
    [decoder({ 5: { content: 7 } }), /added_tokens_decoder\.5\.content is not as expected/],
    [{ 'tokenizer_config.json': { added_tokens_decoder: { x: { content: 'x' } } } }, /is not as expected/],
    [{ 'special_tokens_map.json': { eos_token: 3 } }, /special_tokens_map\.json: eos_token is not/],
    [{ 'special_tokens_map.json': { eos_token: '<none>' } }, /names "<none>" as eos_token/],
  ])('refuses %j', async (files, message) => {
    const failure = await load(files).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(MistletoeError);
    expect(failure).toMatchObject({ code: 'text', message: expect.stringMatching(message) as string });
  });

  it('are named by a Llama class that its file says nothing about', async () => {
    const named = { bos_token: '<s>', eos_token: '</s>', unk_token: '<unk>' };
    for (const beside of [{}, { bos_token: '', eos_token: '', unk_token: '' }]) {
      const files = { 'tokenizer_config.json': { tokenizer_class: 'LlamaTokenizer', ...beside } };
      const tokenizer = await load(files);
      expect(tokenizer.specialTokens).toEqual(named);
      expect([tokenizer.bosId, tokenizer.eosId]).toEqual([0, 1]);
    }
    const none = await load({
      'tokenizer_config.json': { tokenizer_class: 'LlamaTokenizer', bos_token: null },
    });
    expect(none.bosId).toBeUndefined();
  });
});
