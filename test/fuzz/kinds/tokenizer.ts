/**
 * tokenizer.json and the files beside it, read by native code: a panic ends the process that these attempts run in, which
 * is a fault. What is accepted encodes to ids of its vocabulary, or refuses a text in words.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import { packageRoot } from '../../../src/core/package-files.js';
import { loadTokenizer } from '../../../src/text/tokenizer/tokenizer.js';
import { plainTokenizer } from '../../support/tiny-checkpoints.js';
import { mutateBytes, pick } from '../byte-mutations.js';
import { mutateJson } from '../json-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';

type Json = Record<string, unknown>;

/** Parts of tokenizers in the library's words, usual and not, that damage is done to. */
const parts: readonly Json[] = [
  {},
  { normalizer: { type: 'Sequence', normalizers: [{ type: 'NFC' }, { type: 'Lowercase' }] } },
  { normalizer: { type: 'Replace', pattern: { String: ' ' }, content: '▁' } },
  { normalizer: { type: 'Prepend', prepend: '▁' } },
  { pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false } },
  { pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true } },
  {
    pre_tokenizer: { type: 'Split', pattern: { Regex: '\\p{L}+|\\s+' }, behavior: 'Isolated', invert: false },
  },
  { pre_tokenizer: { type: 'Digits', individual_digits: true } },
  { post_processor: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: false, use_regex: true } },
  {
    decoder: {
      type: 'Sequence',
      decoders: [
        { type: 'ByteFallback' },
        { type: 'Fuse' },
        { type: 'Strip', content: ' ', start: 1, stop: 0 },
      ],
    },
  },
  {
    added_tokens: [
      {
        id: 27,
        content: '<s>',
        special: true,
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
      },
    ],
  },
];

const texts = ['', 'abc', 'the quick brown fox', '😀 é\u0301 \u0000', 'a'.repeat(500)];
const published = join(packageRoot, 'test/fixtures/chat');

export const tokenizer: FuzzKind = {
  name: 'tokenizer',
  boundedRuns: 40,
  open(folder) {
    const letters = plainTokenizer(Array.from('abcdefghijklmnopqrstuvwxyz '));
    const real = readdirSync(published).map((name) => {
      const { tokenizer: file, config } = JSON.parse(readFileSync(join(published, name), 'utf8')) as Json;
      return { file, config };
    });
    return async (seed) => {
      const random = createRandom(seed, 'tokenizer');
      const chosen = pick(random, real);
      const isReal = chosen.file !== undefined && random.nextInteger(3) === 0;
      const file = isReal ? chosen.file : { ...letters, ...pick(random, parts), ...pick(random, parts) };
      const config = isReal ? chosen.config : { bos_token: 'a', eos_token: { content: 'b' } };
      const isConfig = random.nextInteger(5) === 0;
      rmSync(join(folder, 'model'), { recursive: true, force: true });
      mkdirSync(join(folder, 'model'));
      writeFileSync(
        join(folder, 'model/tokenizer.json'),
        isConfig ? JSON.stringify(file) : damage(file, random),
      );
      writeFileSync(
        join(folder, 'model/tokenizer_config.json'),
        isConfig ? damage(config, random) : JSON.stringify(config),
      );
      const opened = await loadTokenizer(join(folder, 'model'));
      for (const text of texts) {
        const ids = await opened.encode(text);
        ensure(
          ids.every((id) => Number.isInteger(id) && id >= 0),
          `the ids ${ids.join()}`,
        );
        ensure(typeof opened.decode(ids) === 'string', 'no text came back');
      }
      for (const id of opened.specialIds) opened.tokenText(id);
    };
  },
};

function damage(value: unknown, random: Random): string | Buffer {
  if (random.nextInteger(4) === 0) return mutateBytes(Buffer.from(JSON.stringify(value)), random);
  return mutateJson(value, random);
}
