/** A prompt that would keep the tokenizers library busy for minutes costs seconds of CPU time. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../src/checkpoint/testing/temporary-folder.js';
import { loadTokenizer } from '../../src/text/tokenizer.js';
import { plainTokenizer } from '../support/tiny-checkpoints.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

it('a slow split is ended, and the next text is encoded', async () => {
  const folder = join(temporary.path, 'model');
  mkdirSync(folder);
  const split = { type: 'Split', pattern: { Regex: '(a+)+$' }, behavior: 'Isolated', invert: false };
  const contents = { ...plainTokenizer(Array.from('abc')), pre_tokenizer: split };
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(contents));
  const tokenizer = await loadTokenizer(folder);
  // Each run of 18 letters takes about 10 ms, which is too few steps back for the library to give up.
  await expect(tokenizer.encode(`${'a'.repeat(18)}b`.repeat(20_000))).rejects.toMatchObject({
    code: 'text',
    message: expect.stringContaining('it took more than 3 s') as string,
  });
  expect(await tokenizer.encode('cab')).toEqual([2, 0, 1]);
});
