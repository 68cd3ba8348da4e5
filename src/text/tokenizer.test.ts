import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { Tokenizer as Library } from 'tokenizers';
import { describe, expect, it } from 'vitest';
import { MistletoeError } from '../core/errors.js';
import { findVocabularyDifference, loadTokenizer } from './tokenizer.js';
import {
  bundledTarget,
  byteLevelTokenizer,
  metaspaceTokenizer,
  writeFolder,
} from './testing/sample-folders.js';

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
    ['no tokenizer.json', {}, /tokenizer\.json does not exist/],
    ['truncated JSON', { 'tokenizer.json': '{"version": "1.0", "mod' }, /tokenizer\.json is not valid JSON/],
    [
      'JSON of something else',
      { 'tokenizer.json': '{"version": "1.0"}' },
      /not a usable tokenizer: Model missing/,
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
      /"<s>" the id 5, but tokenizer\.json gives it 0/,
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
