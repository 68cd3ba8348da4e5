/** Texts and tokenizers that keep the tokenizers library busy for seconds: each costs one refusal. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { loadTokenizer } from '../../src/text/tokenizer/tokenizer.js';
import { plainTokenizer } from '../support/tiny-checkpoints.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

const letters = plainTokenizer(Array.from('abc '));

let count = 0;
function write(changes: Readonly<Record<string, unknown>>): string {
  const folder = join(temporary.path, String((count += 1)));
  mkdirSync(folder);
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify({ ...letters, ...changes }));
  return folder;
}

const splitBy = (regex: string) => ({
  pre_tokenizer: { type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false },
});

/** The split of Llama 3. */
const llamaSplit =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

it('a slow split is ended by its CPU time, and the next text is encoded', async () => {
  const tokenizer = await loadTokenizer(write(splitBy('(a+)+$')));
  // Each run of 18 letters takes about 10 ms, which is too few steps back for the library to give up.
  await expect(tokenizer.encode(`${'a'.repeat(18)}b`.repeat(20_000))).rejects.toMatchObject({
    code: 'text',
    message: expect.stringMatching(/it took more than 2\.\d s/) as string,
  });
  expect(await tokenizer.encode('cab')).toEqual([2, 0, 1]);
});

it('a panic by a run of blanks costs that text, though the tokenizer is a published one', async () => {
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
  const splitter = { type: 'Sequence', pretokenizers: [splitBy(llamaSplit).pre_tokenizer, byteLevel] };
  const tokenizer = await loadTokenizer(write({ pre_tokenizer: splitter, decoder: byteLevel }));
  await expect(tokenizer.encode(`${' '.repeat(11_000_000)}b`)).rejects.toMatchObject({
    code: 'text',
    message: expect.stringContaining('SIGABRT') as string,
    hint: expect.stringContaining('Shorten the text') as string,
  });
  expect(await tokenizer.encode('cab')).toEqual([2, 0, 1]);
});

it('pieces of no length are refused', async () => {
  const folder = write({ pre_tokenizer: { type: 'FixedLength', length: 0 } });
  await expect(loadTokenizer(folder)).rejects.toMatchObject({
    name: 'MistletoeError',
    message: expect.stringContaining(join(folder, 'tokenizer.json')) as string,
  });
});
