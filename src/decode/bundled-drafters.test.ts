import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { bundledDrafterFolder, bundledDrafters, findDrafterFolder } from './bundled-drafters.js';

describe('finding a drafter', () => {
  it.each(bundledDrafters)('%s is there by name', (name) => {
    expect(findDrafterFolder(name)).toBe(bundledDrafterFolder(name));
    expect(existsSync(join(findDrafterFolder(name), 'config.json'))).toBe(true);
  });

  it.each(['./eagle3', '/models/eagle3', 'models/mine', 'src'])('%s is a folder', (path) => {
    expect(findDrafterFolder(path)).toBe(path);
  });

  it.each([
    ['eagle2', /Did you mean eagle/],
    ['MEDUSA', /Did you mean medusa\?/],
    ['speculative', /^Bundled: sps, medusa, hydra, eagle, eagle3\./],
  ])('%s is neither', (name, hint) => {
    expect(() => findDrafterFolder(name)).toThrow(
      expect.objectContaining({ code: 'usage', hint: expect.stringMatching(hint) as string }) as Error,
    );
  });
});
