import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { bundledDrafterFolder, bundledDrafters } from '../core/package-files.js';
import { findDrafter } from './find-drafter.js';

describe('finding a drafter', () => {
  it.each(bundledDrafters)('%s is there by name', (name) => {
    expect(findDrafter(name)).toBe(bundledDrafterFolder(name));
    expect(existsSync(join(findDrafter(name), 'config.json'))).toBe(true);
  });

  it.each([
    ['ngram', 'ngram:1,4'],
    ['ngram:1,3', 'ngram:1,3'],
    ['ngram:03,5', 'ngram:3,5'],
  ])('%s needs no folder', (given, found) => {
    expect(findDrafter(given)).toBe(found);
  });

  it.each([
    'ngram:',
    'ngram:2',
    'ngram:4,2',
    'ngram:0,2',
    'ngram:2,65',
    'ngram:2,4,6',
    'ngram:a,b',
    'ngram:-1,2',
  ])('%s is refused with what was expected', (given) => {
    expect(() => findDrafter(given)).toThrow(
      `The drafter "${given}" is not understood; ngram or ngram:MIN,MAX`,
    );
  });

  it.each(['./ngram', './eagle3', '/models/eagle3', 'models/mine', 'src'])('%s is a folder', (path) => {
    expect(findDrafter(path)).toBe(path);
  });

  it.each([
    ['eagle2', /Did you mean eagle/],
    ['MEDUSA', /Did you mean medusa\?/],
    ['ngrams', /Did you mean ngram/],
    ['speculative', /^Bundled: sps, medusa, hydra, eagle, eagle3\./],
  ])('%s is neither', (name, hint) => {
    expect(() => findDrafter(name)).toThrow(
      expect.objectContaining({ code: 'usage', hint: expect.stringMatching(hint) as string }) as Error,
    );
  });
});
