/** A tokenizer.json that panics, hangs or grows costs one refusal: this very process runs on. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../src/checkpoint/testing/temporary-folder.js';
import { loadTokenizer } from '../../src/text/tokenizer.js';
import { findUnusualParts } from '../../src/text/tokenizer-shape.js';
import { referenceTarget } from '../support/model-folders.js';
import { plainTokenizer } from '../support/tiny-checkpoints.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

type Json = Record<string, unknown>;

const letters: Json = plainTokenizer(Array.from('abcdefghijklmnopqrstuvwxyz '));

let count = 0;
function write(changes: Json): string {
  const folder = join(temporary.path, String((count += 1)));
  mkdirSync(folder);
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify({ ...letters, ...changes }));
  return folder;
}

const backtracking = { type: 'Split', pattern: { Regex: '(a+)+$' }, behavior: 'Isolated', invert: false };

describe('is refused', () => {
  it.each<readonly [string, Json]>([
    [
      'a Precompiled normalizer with a bad map',
      { normalizer: { type: 'Precompiled', precompiled_charsmap: 'AAAA' } },
    ],
    [
      'a template with a token that is not declared',
      {
        post_processor: {
          type: 'TemplateProcessing',
          single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }],
          pair: [{ Sequence: { id: 'A', type_id: 0 } }],
          special_tokens: {},
        },
      },
    ],
    ['pieces of no length', { pre_tokenizer: { type: 'FixedLength', length: 0 } }],
    [
      'a decoder that strips more than there is',
      { decoder: { type: 'Strip', content: 'a', start: 9, stop: 9 } },
    ],
    [
      'replacements that grow without end',
      {
        normalizer: {
          type: 'Sequence',
          normalizers: Array.from({ length: 40 }, () => ({
            ...{ type: 'Replace', pattern: { String: 'a' }, content: 'aaaa' },
          })),
        },
      },
    ],
  ])('%s', async (_, changes) => {
    const folder = write(changes);
    await expect(loadTokenizer(folder)).rejects.toMatchObject({
      name: 'MistletoeError',
      message: expect.stringContaining(join(folder, 'tokenizer.json')) as string,
    });
  });
});

describe('a split that the prompt makes run for ever', () => {
  it('costs that prompt, and the next one is encoded', async () => {
    const tokenizer = await loadTokenizer(write({ pre_tokenizer: backtracking }));
    expect(await tokenizer.encode('abc')).toEqual([0, 1, 2]);
    const prompt = `${'a'.repeat(4000)}b`;
    const outcome: unknown = await tokenizer.encode(prompt).catch((cause: unknown) => cause);
    // The library gives up by itself, at times by a panic, or is ended.
    if (!Array.isArray(outcome)) expect(outcome).toMatchObject({ name: 'MistletoeError', code: 'text' });
    expect(await tokenizer.encode('cab')).toEqual([2, 0, 1]);
    expect(tokenizer.decode([2, 0, 1])).toBe('cab');
  });
});

describe('an unusual tokenizer that is honest', () => {
  it('encodes as it would in this process', async () => {
    const usual = await loadTokenizer(write({}));
    const odd = await loadTokenizer(write({ normalizer: { type: 'StripAccents' } }));
    expect(findUnusualParts({ ...letters, normalizer: { type: 'StripAccents' } })).toEqual([
      'normalizer StripAccents',
    ]);
    for (const text of ['abc', 'a quick brown fox', ''])
      expect(await odd.encode(text)).toEqual(await usual.encode(text));
  });
});

describe('what published tokenizers have', () => {
  it('is usual: the bundled one', () => {
    const contents = JSON.parse(readFileSync(join(referenceTarget, 'tokenizer.json'), 'utf8')) as Json;
    expect(findUnusualParts(contents)).toEqual([]);
  });

  it.each(['llama-2', 'llama-3', 'llama-3.1', 'mistral-v0.3', 'qwen2.5', 'qwen3', 'tinyllama', 'vicuna'])(
    'is usual: %s',
    (name) => {
      const path = join(import.meta.dirname, '../fixtures/chat', `${name}.json`);
      const { tokenizer } = JSON.parse(readFileSync(path, 'utf8')) as { tokenizer: Json };
      expect(findUnusualParts(tokenizer)).toEqual([]);
    },
  );

  it.each(['(a+)+$', 'a*a*a*b', '(?=a)b', '(a)\\1', 'a{1,9}b{1,9}', '[a[b]]+'])(
    'is not a split by %s',
    (regex) => {
      const splitter = { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false };
      expect(findUnusualParts({ ...letters, pre_tokenizer: splitter })).toEqual(['pre_tokenizer Split']);
    },
  );
});
