/** `mistletoe serve` as a process of its own. */
import { describe, expect, it } from 'vitest';
import { transpileForTests } from '../support/transpiled-sources.js';
import { expectServed, startProcess } from './serve-process.js';

const sources = transpileForTests('cli-serve');

describe('mistletoe serve', () => {
  it('says what runs where, answers, logs without words, and ends by SIGTERM', async () => {
    await expectServed(sources, 'SIGTERM');
  });

  it('ends where the model is not there', async () => {
    await expect(startProcess(sources.main, ['--target', '/nowhere/model'])).rejects.toThrow(
      '/nowhere/model',
    );
  });
});
