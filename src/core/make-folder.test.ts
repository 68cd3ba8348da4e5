import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeFolder, makeFolderSync } from './durable-files.js';

const root = mkdtempSync(join(tmpdir(), 'mistletoe-test-'));
afterAll(() => {
  rmSync(root, { recursive: true, force: true });
});

it('makes a folder with all above it, and leaves one that is there', async () => {
  const path = join(root, 'a/b/c');
  await Promise.all([makeFolder(path), makeFolder(path), makeFolder(join(root, 'a/b'))]);
  await makeFolder(path);
  await makeFolder(relative(process.cwd(), join(root, 'a/d')));
  expect(statSync(path).isDirectory() && existsSync(join(root, 'a/d'))).toBe(true);
});

it('says what is in the way', async () => {
  writeFileSync(join(root, 'file'), '');
  await expect(makeFolder(join(root, 'file'))).rejects.toMatchObject({ code: 'EEXIST' });
  await expect(makeFolder(join(root, 'file/below'))).rejects.toMatchObject({ code: 'ENOTDIR' });
});

it.skipIf(!existsSync('/proc/self'))('ends where nothing can ever be made', async () => {
  await expect(makeFolder('/proc/x/y')).rejects.toMatchObject({ code: 'ENOENT' });
});

it('leaves the mode of a folder that is there', async () => {
  mkdirSync(join(root, 'open'), { mode: 0o755 });
  await makeFolder(join(root, 'open/below'));
  expect(statSync(join(root, 'open')).mode & 0o777).toBe(0o755);
});

describe('makeFolderSync', () => {
  it('does the same at once', () => {
    const path = join(root, 's/b/c');
    makeFolderSync(path);
    makeFolderSync(path);
    expect(statSync(path).isDirectory()).toBe(true);
    writeFileSync(join(root, 's/file'), '');
    symlinkSync('nowhere', join(root, 's/dangling'));
    for (const [below, code] of [
      ['s/file', 'EEXIST'],
      ['s/file/below', 'ENOTDIR'],
      ['s/dangling', 'EEXIST'],
      [`s/${'x'.repeat(300)}`, 'ENAMETOOLONG'],
    ] as const)
      expect(() => {
        makeFolderSync(join(root, below));
      }).toThrow(code);
  });

  it.skipIf(!existsSync('/proc/self'))('ends where nothing can ever be made', () => {
    expect(() => {
      makeFolderSync('/proc/x/y');
    }).toThrow('ENOENT');
  });
});
