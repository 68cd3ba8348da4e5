import { describe, expect, it } from 'vitest';
import { createFakeTerminal } from '../../test/support/fake-terminal.js';
import { inlinePrompt } from '../text/prompts/prompt-set.js';
import { createDownloadProgress, joinPromptSets } from './model-source.js';
import type { ProgressMode } from './progress.js';
import { createProgress } from './progress.js';

/** 1.5 GB in pieces of 64 kB, 100 MB of them there before, 50 MB a second. */
function download(mode: ProgressMode): string {
  const terminal = createFakeTerminal();
  let time = 5000;
  const progress = createProgress(mode, terminal.stderr, () => time);
  const display = createDownloadProgress(progress, 'org/tiny');
  display.onStart(1.5e9);
  for (let doneBytes = 100e6; doneBytes < 1.5e9; doneBytes += 64_000) {
    display.onProgress({ file: doneBytes < 1e9 ? 'model-1.safetensors' : 'model-2.safetensors', doneBytes });
    time += 64_000 / 50_000;
  }
  display.onProgress({ file: 'model-2.safetensors', doneBytes: 1.5e9 });
  display.end('org/tiny is there');
  return terminal.written.err;
}

describe('the progress of a download', () => {
  it('is told in sizes, with how long, and what was there before does not make it faster', () => {
    const lines = download('plain').split('\n');
    expect(lines[0]).toBe('download org/tiny: 1.50 GB to do');
    expect(lines).toContainEqual(
      expect.stringMatching(
        /^download org\/tiny: 75\d MB\/1\.50 GB \(50 %\) {2}left 15 s {2}file model-1\.safetensors$/,
      ),
    );
    expect(lines.slice(-3)).toEqual([
      'download org/tiny: 1.50 GB/1.50 GB (100 %)  left 0 s  file model-2.safetensors',
      'org/tiny is there',
      '',
    ]);
    expect(lines.length).toBeLessThan(15);
  });

  it('is told to programs in bytes, a thousandth at a time', () => {
    const events = download('json').trimEnd().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>); // prettier-ignore
    expect(events[0]).toEqual({ event: 'progress-start', label: 'download org/tiny', total: 1.5e9 });
    const updates = events.filter(({ event }) => event === 'progress-update');
    expect(updates.length).toBeGreaterThan(900);
    expect(updates.length).toBeLessThan(1010);
    expect(updates.at(-1)).toMatchObject({ done: 1.5e9, file: 'model-2.safetensors' });
    expect(events.at(-1)).toMatchObject({ event: 'progress-end', summary: 'org/tiny is there' });
  });

  it('says nothing where there is nothing to fetch', () => {
    const terminal = createFakeTerminal();
    const display = createDownloadProgress(createProgress('plain', terminal.stderr), 'a/b');
    display.end('a/b is there');
    expect(terminal.written.err).toBe('');
  });
});

it('prompts of several sets start with the name of their set, without private folders', () => {
  const set = (name: string) => ({ name, prompts: [inlinePrompt('Hi')] });
  const sets = [set('mt-bench'), set('a/list.txt'), set('/home/someone/secret/list.txt')];
  const ids = joinPromptSets(sets, undefined).map(({ id }) => id);
  expect(ids).toEqual(['mt-bench-prompt', 'a/list.txt-prompt', '.../list.txt-prompt']);
  expect(joinPromptSets([set('/home/someone/list.txt')], 1)).toMatchObject([{ id: 'prompt' }]);
});
