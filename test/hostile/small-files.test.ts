/**
 * Small files that once ended or blocked the process although each of their parts looks harmless. Each costs one refusal.
 * The command line meets them too (test/fuzz/corpus).
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { MistletoeError } from '../../src/core/errors.js';
import { findVocabularyDifference, loadTokenizer } from '../../src/text/tokenizer/tokenizer.js';
import { hostileTokenizers, hugeIdTokenizer, letterTokenizer } from '../fuzz/corpus/small-files.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);

let count = 0;
function write(file: object): string {
  const folder = join(temporary.path, String((count += 1)));
  mkdirSync(folder);
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(file));
  return folder;
}

describe('a tokenizer of no published structure', () => {
  it.each(hostileTokenizers)('costs one refusal: $name', async ({ file, prompt }) => {
    const folder = write(file);
    const encode = async (): Promise<number[]> => (await loadTokenizer(folder)).encode(prompt);
    const failure: unknown = await encode().catch((cause: unknown) => cause);
    expect(failure).toBeInstanceOf(MistletoeError);
    expect(failure).toMatchObject({
      code: 'text',
      message: expect.stringContaining(join(folder, 'tokenizer.json')) as string,
    });
  });
});

describe('ids of a vocabulary', () => {
  it('are refused where they are far beyond the number of tokens', async () => {
    await expect(loadTokenizer(write(hugeIdTokenizer))).rejects.toThrow(
      /has the token id 4294967290 with 24 tokens; at most 1000000 tokens are supported/,
    );
    const gap = letterTokenizer({ z: 900_000 });
    await expect(loadTokenizer(write(gap), { modelVocabularySize: 24 })).rejects.toThrow(
      /has the token id 900000 with 24 tokens, but the model has 24 tokens/,
    );
  });

  it('are compared by entries, however far apart they are', async () => {
    const gap = await loadTokenizer(write(letterTokenizer({ z: 900_000 })));
    const other = await loadTokenizer(write(letterTokenizer({ z: 900_001 })));
    expect(findVocabularyDifference(gap, gap)).toBeUndefined();
    expect(findVocabularyDifference(gap, other)).toEqual({ id: 900_000, left: 'z', right: undefined });
    expect(findVocabularyDifference(other, gap)).toEqual({ id: 900_000, left: undefined, right: 'z' });
    let asked = 0;
    const counted = { ...gap, hasToken: (id: number) => ((asked += 1), gap.hasToken(id)) };
    findVocabularyDifference(counted, counted);
    expect(asked).toBeLessThan(100);
  });
});

describe('a tokenizer with far more entries than its model has tokens', () => {
  it('is refused before it is parsed', async () => {
    const many = Array.from({ length: 45_000 }, (_, token) => `"t${token}":${token}`).join();
    const folder = join(temporary.path, 'many');
    mkdirSync(folder);
    // Counted, not parsed: the text is no valid JSON at its end.
    writeFileSync(join(folder, 'tokenizer.json'), `{"model":{"type":"BPE","vocab":{${many}},"merges":[]}`);
    await expect(loadTokenizer(folder, { modelVocabularySize: 24 })).rejects.toThrow(
      /has more than 40192 entries, but the model has 24 tokens/,
    );
  });
});
