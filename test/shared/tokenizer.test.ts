import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadPrompts, promptSetFiles } from '../../src/text/prompts/prompt-set.js';
import { loadTokenizer } from '../../src/text/tokenizer/tokenizer.js';
import { referenceTarget } from '../support/model-folders.js';
import { hasShared, sharedFolder } from '../support/shared.js';

describe.skipIf(!hasShared)('the prompt sets', () => {
  it.each(Object.keys(promptSetFiles))('%s encodes and decodes back', async (name) => {
    const tokenizer = await loadTokenizer(referenceTarget);
    const prompts = await loadPrompts(name, { folder: join(sharedFolder, 'data') });
    expect(prompts).toHaveLength(80);
    for (const text of prompts.flatMap(({ turns }) => turns)) {
      expect(tokenizer.decode(await tokenizer.encode(text))).toBe(text);
    }
  });
});
