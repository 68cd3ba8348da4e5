/** A structure counts as published only as a whole: any other value in any part of it is another tokenizer. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { referenceTarget } from '../../../test/support/model-folders.js';
import { matchDecoder, matchPublished } from './published-tokenizers.js';

type Json = Record<string, unknown>;

const readFixture = (name: string): Json =>
  (
    JSON.parse(
      readFileSync(join(import.meta.dirname, '../../../test/fixtures/chat', `${name}.json`), 'utf8'),
    ) as { tokenizer: Json }
  ).tokenizer;
const reference = JSON.parse(readFileSync(join(referenceTarget, 'tokenizer.json'), 'utf8')) as Json;
const nameOf = (file: Json, changes: Json = {}): string | undefined =>
  matchPublished({ ...file, ...changes })?.name;

describe('published tokenizers are recognised', () => {
  it.each([
    ['llama-2', 'Llama 2'],
    ['tinyllama', 'Llama 2'],
    ['mistral-v0.1', 'Llama 2'],
    ['mistral-v0.3', 'Mistral'],
    ['vicuna', 'Mistral'],
    ['llama-3', 'Llama 3'],
    ['llama-3.1', 'Llama 3'],
    ['qwen2.5', 'Qwen 2'],
    ['qwen3', 'Qwen 2'],
  ])('%s', (fixture, name) => {
    expect(nameOf(readFixture(fixture))).toBe(name);
  });

  it('the bundled one, with its special token in front', () => {
    const { contents } = matchPublished(reference)!;
    expect(contents.post_processor).toMatchObject({
      single: [{ SpecialToken: { id: '<s>' } }, { Sequence: { id: 'A' } }],
      special_tokens: { '<s>': { ids: [1] } },
    });
  });

  it('with the settings that have no effect, or that older files leave out', () => {
    const gpt2 = { ...readFixture('llama-3'), pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false } };
    expect(nameOf(gpt2)).toBe('GPT-2');
    expect(nameOf(gpt2, { post_processor: { type: 'ByteLevel', trim_offsets: false } })).toBe('GPT-2');
    expect(nameOf(gpt2, { decoder: { type: 'ByteLevel', add_prefix_space: false } })).toBe('GPT-2');
  });
});

/** The file with one value replaced, for every value inside its normalizer, pre-tokenizer and decoder. */
function* listChanges(part: unknown, rebuild: (changed: unknown) => Json): Generator<Json> {
  yield rebuild(typeof part === 'string' ? `${part}x` : typeof part === 'number' ? part + 1 : ['other']);
  if (Array.isArray(part)) {
    yield rebuild([...(part as unknown[]), { type: 'NFC' }]);
    yield rebuild(part.slice(1));
    for (const [index, item] of part.entries())
      yield* listChanges(item, (changed) => rebuild(part.with(index, changed)));
  } else if (typeof part === 'object' && part !== null) {
    yield rebuild({ ...part, more: true });
    for (const [key, value] of Object.entries(part))
      yield* listChanges(value, (changed) => rebuild({ ...part, [key]: changed }));
  }
}

describe('a structure with one other value is not published', () => {
  it.each(['normalizer', 'pre_tokenizer', 'decoder', 'post_processor'])('%s', (key) => {
    for (const file of [reference, readFixture('llama-3'), readFixture('qwen2.5')]) {
      for (const changed of listChanges(file[key], (part) => ({ ...file, [key]: part }))) {
        // Pairs of texts are never encoded, and offsets never read.
        const isUnused = /"pair":|"special_tokens":.*"more"|trim_offsets/.test(
          differenceOf(file, changed, key),
        );
        if (!isUnused) expect([key, changed[key], nameOf(changed)]).toEqual([key, changed[key], undefined]);
      }
    }
  });

  it.each<readonly [string, Json]>([
    ['truncation', { truncation: { max_length: 1 } }],
    ['padding', { padding: {} }],
    ['another key', { more: 1 }],
    ['an added token that takes blanks', { added_tokens: [{ ...added(), rstrip: true }] }],
    ['an added token with another key', { added_tokens: [{ ...added(), more: 1 }] }],
    ['dropout', withModel({ dropout: 0.1 })],
    ['another model', withModel({ type: 'WordLevel' })],
    ['a prefix of pieces', withModel({ continuing_subword_prefix: '##' })],
    ['a merge out of the vocabulary', withModel({ vocab: { a: 0, b: 1 }, merges: ['a b'] })],
    ['a merge of three', withModel({ vocab: { a: 0, aa: 1, aaa: 2 }, merges: ['a a a'] })],
    ['another setting of the model', withModel({ more: 1 })],
  ])('%s', (_, changes) => {
    expect(nameOf(reference, changes)).toBeUndefined();
  });
});

describe('what goes around a text', () => {
  const begin = { SpecialToken: { id: '<s>', type_id: 0 } };
  const text = { Sequence: { id: 'A', type_id: 0 } };
  const declared = { '<s>': { id: '<s>', ids: [1], tokens: ['<s>'] } };
  const wrap = (single: unknown, special_tokens: unknown = declared): string | undefined =>
    nameOf(reference, {
      post_processor: { type: 'TemplateProcessing', single, pair: [], special_tokens },
    });

  it('is one declared special token in front of it, and nothing else', () => {
    expect(wrap([begin, text])).toBe('Mistletoe reference');
    expect(wrap([begin, { Sequence: { id: 'B', type_id: 0 } }])).toBeUndefined();
    expect(wrap([text, begin])).toBeUndefined();
    expect(wrap([begin, text, text])).toBeUndefined();
    expect(wrap([begin, text], {})).toBeUndefined();
    expect(
      wrap([begin, text], { '<s>': { id: '<s>', ids: [1, 1], tokens: ['<s>', '<s>'] } }),
    ).toBeUndefined();
    expect(wrap([begin, text], { '<s>': { id: '<s>', ids: [2], tokens: ['<s>'] } })).toBeUndefined();
    expect(wrap([{ SpecialToken: { id: '__proto__', type_id: 0 } }, text])).toBeUndefined();
  });
});

describe('decoders', () => {
  it('are known as a whole', () => {
    expect(matchDecoder(reference.decoder)).toEqual(reference.decoder);
    expect(matchDecoder(undefined)).toBeNull();
    const { decoders } = reference.decoder as { decoders: unknown[] };
    expect(matchDecoder({ type: 'Sequence', decoders: [...decoders, ...decoders] })).toBeUndefined();
    expect(matchDecoder({ type: 'Strip', content: 'a', start: 9, stop: 9 })).toBeUndefined();
  });
});

function added(): Json {
  return (reference.added_tokens as Json[])[0]!;
}

function withModel(changes: Json): Json {
  return { model: { ...(reference.model as Json), ...changes } };
}

/** The first stretch in which two files differ in a part, with what stands before it. */
function differenceOf(left: Json, right: Json, key: string): string {
  const [before, after] = [JSON.stringify(left[key]), JSON.stringify(right[key])];
  let at = 0;
  while (at < after.length && before[at] === after[at]) at++;
  return after.slice(0, at + 20);
}
