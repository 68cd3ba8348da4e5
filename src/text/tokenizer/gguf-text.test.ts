/** Tokenizers of GGUF files: the ids of the tokenizer.json that they were made of. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { GgufMetadata } from '../../../test/support/checkpoint/encode-gguf.js';
import { encodeGguf } from '../../../test/support/checkpoint/encode-gguf.js';
import { describeTokenizer } from '../../../test/support/checkpoint/gguf-tokenizer.js';
import { makeTemporaryFolder } from '../../../test/support/checkpoint/temporary-folder.js';
import { text, uint32 } from '../../../test/support/checkpoint/write-gguf.js';
import { bundledTarget, writeFolder } from '../../../test/support/text/sample-folders.js';
import { encodeChat } from '../../../test/support/text/encode-chat.js';
import { loadChatTemplate } from '../template/chat-template.js';
import { byteLetters, structures } from './tokenizer-structures.js';
import { hasTokenizer } from './tokenizer-file.js';
import { loadTokenizer } from './tokenizer.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
let count = 0;

function write(metadata: GgufMetadata): string {
  const path = join(temporary.path, `${(count += 1)}.gguf`);
  writeFileSync(path, encodeGguf(metadata, []));
  return path;
}

const texts = [
  '',
  ' ',
  'The quick brown fox jumps over the lazy dog, 12345 times (and 6.7)!',
  'def f(x):\n    return x ** 2  # done\n\n\tpass',
  "Grüße, 你好, привет, 🙂 e\u0301 I’ll it's DON'T",
  '  leading,   inner   and trailing  ',
  'USER: hello </s><s> there</s>',
  '<|special|>the cat<tool>sat 99<|special|>',
];

describe('a tokenizer of the kind llama', () => {
  const metadata = describeTokenizer(bundledTarget, { kind: 'llama', ids: { bos: 1, eos: 2, unknown: 0 } });

  it('gives the ids and texts of the bundled tokenizer', async () => {
    const expected = await loadTokenizer(bundledTarget);
    const tokenizer = await loadTokenizer(write(metadata));
    for (const each of texts) {
      const ids = await expected.encode(each);
      expect(await tokenizer.encode(each)).toEqual(ids);
      expect(tokenizer.decode(ids)).toBe(expected.decode(ids));
    }
    expect(tokenizer).toMatchObject({ bosId: 1, eosId: 2, vocabularySize: expected.vocabularySize });
    expect(tokenizer.specialIds).toEqual(expected.specialIds);
  });

  it('renders the chat template of the file', async () => {
    const path = write(metadata);
    const messages = [{ role: 'user', content: 'Why is the sky blue?' }] as const;
    const encode = async (place: string): Promise<number[]> =>
      encodeChat(await loadTokenizer(place), (await loadChatTemplate(place))!, messages);
    expect(await encode(path)).toEqual(await encode(bundledTarget));
    expect((await loadChatTemplate(path))!.origin).toBe(path);
  });

  it('adds the beginning of a text only if the file asks for it, or says nothing', async () => {
    const flag = (value: boolean) => ({
      ...metadata,
      'tokenizer.ggml.add_bos_token': { type: 'bool', value } as const,
    });
    const first = async (of: GgufMetadata): Promise<number | undefined> =>
      (await (await loadTokenizer(write(of))).encode('the'))[0];
    expect(await first(metadata)).toBe(1);
    expect(await first(flag(true))).toBe(1);
    expect(await first(flag(false))).not.toBe(1);
  });
});

/** A byte-level vocabulary with merges of English words, in the structure of a published tokenizer. */
function byteLevelFile(structure: (typeof structures)[number]): object {
  const pieces = [...byteLetters()];
  const merges: string[] = [];
  for (const word of ['Ġthe', 'Ġquick', 'Ġleading', '12', '123', 'Ġit', "'s", 'Ċ', 'ĊĊ', 'ĠĠ', 'ĠĠĠ']) {
    const letters = Array.from(word);
    for (let end = 2; end <= letters.length; end++) {
      const [left, right] = [letters.slice(0, end - 1).join(''), letters[end - 1]!];
      if (pieces.includes(left + right)) continue;
      pieces.push(left + right);
      merges.push(`${left} ${right}`);
    }
  }
  const { name, normalizer, splitter, decoder } = structure;
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  return {
    version: '1.0',
    added_tokens: [
      { id: pieces.length, content: '<|special|>', special: true, ...flags },
      { id: pieces.length + 1, content: '<tool>', special: false, ...flags },
    ],
    ...{ normalizer, pre_tokenizer: splitter, post_processor: null, decoder },
    model: {
      ...{ type: 'BPE', unk_token: null, fuse_unk: false, byte_fallback: false, merges },
      ignore_merges: name === 'Llama 3',
      vocab: Object.fromEntries(pieces.map((piece, id) => [piece, id])),
    },
  };
}

const published = (name: string) => structures.find((each) => each.name === name)!;

describe('a tokenizer of the kind gpt2', () => {
  it.each([
    ['llama-bpe', 'Llama 3'],
    ['qwen2', 'Qwen 2'],
    ['gpt-2', 'GPT-2'],
    ['smollm', 'SmolLM'],
  ])('split by %s gives the ids of %s', async (split, name) => {
    const folder = writeFolder({ 'tokenizer.json': byteLevelFile(published(name)) });
    const metadata = describeTokenizer(folder, { kind: 'gpt2', split, ids: { eos: 2 } });
    const expected = await loadTokenizer(folder);
    const tokenizer = await loadTokenizer(write(metadata));
    for (const each of texts) expect(await tokenizer.encode(each)).toEqual(await expected.encode(each));
    expect(tokenizer.eosId).toBe(2);
    expect(tokenizer.vocabularySize).toBe(expected.vocabularySize);
    expect([...tokenizer.specialIds].map((id) => tokenizer.tokenText(id))).toContain('<|special|>');
  });

  it('of one family does not give the ids of another', async () => {
    const folder = writeFolder({ 'tokenizer.json': byteLevelFile(published('Llama 3')) });
    const tokenizer = await loadTokenizer(write(describeTokenizer(folder, { kind: 'gpt2', split: 'qwen2' })));
    const expected = await loadTokenizer(folder);
    expect(await tokenizer.encode('12345')).not.toEqual(await expected.encode('12345'));
  });

  it('begins texts of Llama 3 with its token even if the file does not ask for it', async () => {
    const folder = writeFolder({ 'tokenizer.json': byteLevelFile(published('Llama 3')) });
    const ids = { bos: 5 };
    const first = async (split: string): Promise<number | undefined> =>
      (
        await (
          await loadTokenizer(write(describeTokenizer(folder, { kind: 'gpt2', split, ids })))
        ).encode('the')
      )[0];
    expect(await first('llama-bpe')).toBe(5);
    expect(await first('qwen2')).not.toBe(5);
  });

  it('leaves out the tokens that fill gaps', async () => {
    const folder = writeFolder({ 'tokenizer.json': byteLevelFile(published('Qwen 2')) });
    const metadata = describeTokenizer(folder, { kind: 'gpt2', split: 'qwen2' });
    const tokens = metadata['tokenizer.ggml.tokens']!.value as readonly string[];
    const types = metadata['tokenizer.ggml.token_type']!.value as readonly number[];
    const filled: GgufMetadata = {
      ...metadata,
      'tokenizer.ggml.tokens': { type: 'strings', value: [...tokens, '[PAD999]'] },
      'tokenizer.ggml.token_type': { type: 'int32s', value: [...types, 5] },
    };
    const tokenizer = await loadTokenizer(write(filled));
    expect(tokenizer.vocabularySize).toBe(tokens.length);
    expect(tokenizer.hasToken(tokens.length)).toBe(false);
  });
});

describe('a GGUF file', () => {
  const tokens = (...value: string[]): GgufMetadata => ({
    'tokenizer.ggml.tokens': { type: 'strings', value },
  });
  const gpt2: GgufMetadata = { 'tokenizer.ggml.model': text('gpt2'), ...tokens('a', 'b') };

  it('without a vocabulary has no tokenizer', async () => {
    expect(await hasTokenizer(write({ 'tokenizer.ggml.model': text('none') }))).toBe(false);
    expect(await hasTokenizer(write({}))).toBe(false);
    expect(await hasTokenizer(write(gpt2))).toBe(true);
    await expect(loadTokenizer(write({}))).rejects.toThrow(/has no tokenizer/);
    expect(await loadChatTemplate(write({}))).toBeUndefined();
  });

  it.each<[string, GgufMetadata, RegExp]>([
    ['another kind', { 'tokenizer.ggml.model': text('bert'), ...tokens('a') }, /of the kind "bert"/],
    [
      'an unknown split',
      { ...gpt2, 'tokenizer.ggml.pre': text('tekken') },
      /by "tekken" \(tokenizer\.ggml\.pre\)/,
    ],
    ['llama.cpp’s default split', { ...gpt2, 'tokenizer.ggml.pre': text('default') }, /by "default"/],
    ['no split', gpt2, /has no tokenizer\.ggml\.pre/],
    ['no tokens', { 'tokenizer.ggml.model': text('llama') }, /names a tokenizer and has no tokens/],
    ['a token twice', { ...gpt2, ...tokens('a', 'b', 'a') }, /"a" as tokens 0 and 2/],
    ['an empty token', { ...gpt2, ...tokens('a', '') }, /token 1 of 0 characters/],
    [
      'an id beyond its tokens',
      { ...gpt2, 'tokenizer.ggml.eos_token_id': uint32(2) },
      /eos_token_id 2, but 2 tokens/,
    ],
    ['too few types', { ...gpt2, 'tokenizer.ggml.token_type': { type: 'int32s', value: [1] } }, /expected 2/],
    [
      'an unknown type',
      { ...gpt2, 'tokenizer.ggml.token_type': { type: 'int32s', value: [1, 9] } },
      /type 9/,
    ],
    [
      'a score of NaN',
      { ...gpt2, 'tokenizer.ggml.scores': { type: 'float32s', value: [0, NaN] } },
      /score NaN/,
    ],
  ])('is refused with %s', async (_, metadata, message) => {
    await expect(loadTokenizer(write(metadata))).rejects.toThrow(message);
  });
});
