import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { isMissing, readBoundedFile, readBoundedFileSync } from './files.js';

const folder = mkdtempSync(join(tmpdir(), 'bounded-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

describe.each([
  ['readBoundedFile', readBoundedFile],
  [
    'readBoundedFileSync',
    (path: string, most?: number) => Promise.resolve().then(() => readBoundedFileSync(path, most)),
  ],
])('%s', (_, read) => {
  it('reads a file up to the given size', async () => {
    const path = join(folder, 'small');
    writeFileSync(path, 'twelve bytes');
    expect((await read(path, 12)).toString()).toBe('twelve bytes');
    await expect(read(path, 11)).rejects.toThrow('it has 12 bytes, and 11 are the most that is read');
  });

  it('opens neither folders nor devices nor pipes', async () => {
    await expect(read(folder)).rejects.toThrow('it is not a regular file');
    await expect(read('/dev/zero')).rejects.toThrow('it is not a regular file');
    const pipe = join(folder, 'pipe');
    rmSync(pipe, { force: true });
    execFileSync('mkfifo', [pipe]);
    await expect(read(pipe)).rejects.toThrow('it is not a regular file');
  });

  it('leaves a missing file to the caller', async () => {
    const failure: unknown = await read(join(folder, 'none')).catch((cause: unknown) => cause);
    expect(isMissing(failure)).toBe(true);
    expect(isMissing(new Error('other'))).toBe(false);
  });
});
