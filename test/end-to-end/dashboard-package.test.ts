/** The page put together from JavaScript alone, as in the package, where neither sources nor compiler are at hand. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { pageHandler } from '../../src/dashboard/page-handler.js';
import { transpileForTests } from '../support/transpiled-sources.js';

describe('the page of the package', () => {
  const { folder } = transpileForTests('page');

  it('is the one of the sources', async () => {
    const path = join(folder, 'src/dashboard/page-handler.js');
    expect(existsSync(path.replace(/\.js$/, '.ts'))).toBe(false);
    const compiled = (await import(/* @vite-ignore */ path)) as { pageHandler: typeof pageHandler };
    const answer = compiled.pageHandler('/mistletoe', 'GET');
    expect(answer?.status).toBe(200);
    expect(answer).toEqual(pageHandler('/mistletoe', 'GET'));
  });
});
