import { execFileSync } from 'node:child_process';
import { chmodSync, closeSync, linkSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { replaceBuiltin } from '../../test/support/replaced-builtin.js';
import {
  appendFileSync,
  changeFileSync,
  copyFileSync,
  isTemporary,
  makeFolderBelow,
  makeFolderSync,
  openToWrite,
  openToWriteSync,
  refuseLinksBelow,
  removeTemporaries,
  replaceFile,
  replaceFileSync,
  writeNewFileSync,
} from './durable-files.js';
import fs from 'node:fs';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
let folders = 0;
let folder: string;
let victim: string;
beforeEach(() => {
  folder = join(temporary.path, String((folders += 1)));
  mkdirSync(folder);
  victim = join(folder, 'victim');
  writeFileSync(victim, 'years of work');
});

const plants: readonly (readonly [name: string, plant: (path: string) => void, fault: string])[] = [
  ['a link to a file', (path) => { symlinkSync(victim, path); }, 'is a symbolic link'], // prettier-ignore
  ['a link to nothing', (path) => { symlinkSync(`${victim}2`, path); }, 'is a symbolic link'], // prettier-ignore
  ['a link to itself', (path) => { symlinkSync(path, path); }, 'is a symbolic link'], // prettier-ignore
  ['a link to a device', (path) => { symlinkSync('/dev/zero', path); }, 'is a symbolic link'], // prettier-ignore
  ['a hard link', (path) => { linkSync(victim, path); }, 'is a hard link'], // prettier-ignore
  ['a pipe', (path) => { execFileSync('mkfifo', [path]); }, 'is not a regular file'], // prettier-ignore
  ['a folder', (path) => { mkdirSync(path); }, 'is not a regular file'], // prettier-ignore
];

describe.skipIf(process.platform === 'win32').each(plants)('%s', (_, plant, fault) => {
  let path: string;
  beforeEach(() => {
    path = join(folder, 'planted');
    plant(path);
  });
  afterEach(() => {
    expect(readFileSync(victim, 'utf8')).toBe('years of work');
    expect(readdirSync(folder).sort()).toEqual(['planted', 'victim']);
  });

  it('is not opened for writing', async () => {
    const message = `${path} ${fault}; only regular files with one name are written to.`;
    for (const access of ['append', 'change'] as const) {
      expect(() => openToWriteSync(path, access)).toThrow(message);
      await expect(openToWrite(path, access)).rejects.toMatchObject({ code: 'usage', message });
    }
    expect(() => openToWriteSync(path, 'new')).toThrow('EEXIST');
    await expect(openToWrite(path, 'new')).rejects.toMatchObject({ code: 'EEXIST' });
    expect(() => { appendFileSync(path, 'x', { isDurable: true }); }).toThrow(message); // prettier-ignore
    expect(() => { writeNewFileSync(path, 'x'); }).toThrow('EEXIST'); // prettier-ignore
    expect(() => { copyFileSync(victim, path); }).toThrow('EEXIST'); // prettier-ignore
  });

  it.skipIf(fault === 'is not a regular file' && _ === 'a folder')('is replaced as such', async () => {
    await replaceFile(path, 'new');
    expect([readFileSync(path, 'utf8'), statSync(path).nlink]).toEqual(['new', 1]);
    fs.rmSync(path);
    plant(path);
    replaceFileSync(path, 'newer');
    expect([readFileSync(path, 'utf8'), statSync(path).nlink]).toEqual(['newer', 1]);
  });
});

describe('a link that comes between the look and the opening', () => {
  let planted = '';
  // The look finds nothing.
  replaceBuiltin(fs, 'lstatSync', (real) => ((path: string, options: object) => (path === planted ? undefined : real(path, options))) as typeof real); // prettier-ignore
  it.skipIf(process.platform === 'win32')('is not followed either', () => {
    planted = join(folder, 'planted');
    symlinkSync(victim, planted);
    expect(() => openToWriteSync(planted, 'append')).toThrow('ELOOP');
    fs.rmSync(planted);
    linkSync(victim, planted);
    expect(() => openToWriteSync(planted, 'append')).toThrow('is a hard link');
    planted = '';
    expect(readFileSync(victim, 'utf8')).toBe('years of work');
  });
});

describe('files', () => {
  it('are written whole or not at all, with nothing left beside them', async () => {
    const path = join(folder, 'file');
    replaceFileSync(path, 'one');
    await replaceFile(path, 'two', { readers: 'private', isDurable: false });
    expect(readFileSync(path, 'utf8')).toBe('two');
    const broken = () => Promise.reject(new Error('broken'));
    await expect(replaceFile(path, async (made) => { writeFileSync(made, 'three'); await broken(); })).rejects.toThrow('broken'); // prettier-ignore
    expect(() => { replaceFileSync(path, (made) => { writeFileSync(made, 'three'); throw new Error('broken'); }); }).toThrow('broken'); // prettier-ignore
    expect(readFileSync(path, 'utf8')).toBe('two');
    expect(readdirSync(folder).sort()).toEqual(['file', 'victim']);
  });

  it('are appended to, changed and copied', () => {
    const path = join(folder, 'file');
    appendFileSync(path, 'ab', { isDurable: false });
    appendFileSync(path, 'cd', { isDurable: true });
    changeFileSync(path, (file) => {
      fs.ftruncateSync(file, 3);
    });
    copyFileSync(path, `${path}-copy`);
    expect(readFileSync(`${path}-copy`, 'utf8')).toBe('abc');
    expect(() => { copyFileSync(folder, `${path}-other`); }).toThrow(`${folder} cannot be read: it is not a regular file.`); // prettier-ignore
  });

  it('of killed processes are recognized by their names', async () => {
    let name = '';
    await replaceFile(join(folder, 'a.json'), (made) => { name = made; writeFileSync(made, ''); return Promise.resolve(); }); // prettier-ignore
    expect(isTemporary(name)).toBe(true);
    writeFileSync(name, '');
    mkdirSync(`${name}.1.${'0'.repeat(16)}.${'0'.repeat(16)}.tmp`);
    writeFileSync(join(folder, 'mine.tmp'), '');
    removeTemporaries(folder);
    expect(readdirSync(folder).filter((left) => left.endsWith('.tmp'))).toHaveLength(2);
    expect(fs.existsSync(name)).toBe(false);
  });
});

describe.skipIf(process.platform === 'win32')('modes', () => {
  const modeOf = (path: string): number => statSync(path).mode & 0o777;
  const withUmask = async (mask: number): Promise<number[]> => {
    const before = process.umask(mask);
    try {
      const root = join(folder, `umask-${mask}`);
      makeFolderSync(join(root, 'a'));
      makeFolderBelow(root, join(root, 'b/c'), 'private');
      closeSync(openToWriteSync(join(root, 'd'), 'append'));
      await replaceFile(join(root, 'e'), '');
      replaceFileSync(join(root, 'f'), '', { readers: 'private' });
      copyFileSync(victim, join(root, 'g'));
      return ['', 'a', 'b', 'b/c', 'd', 'e', 'f', 'g'].map((name) => modeOf(join(root, name)));
    } finally {
      process.umask(before);
    }
  };

  it('let nobody else write, whatever the umask', async () => {
    chmodSync(victim, 0o666);
    expect(await withUmask(0)).toEqual([0o755, 0o755, 0o700, 0o700, 0o644, 0o644, 0o600, 0o644]);
    expect(await withUmask(0o077)).toEqual([0o700, 0o700, 0o700, 0o700, 0o600, 0o600, 0o600, 0o600]);
  });
});

describe.skipIf(process.platform === 'win32')('folders', () => {
  it('are made below a root that may be a link, and through no other link', () => {
    const [root, elsewhere] = [join(folder, 'root'), join(folder, 'elsewhere')];
    mkdirSync(elsewhere);
    symlinkSync(elsewhere, root);
    makeFolderBelow(root, join(root, 'a/b'));
    makeFolderBelow(root, join(root, 'a/b'));
    expect(readdirSync(join(elsewhere, 'a'))).toEqual(['b']);
    symlinkSync(folder, join(root, 'a/link'));
    symlinkSync('nowhere', join(root, 'a/dangling'));
    for (const name of ['link', 'dangling']) {
      expect(() => { makeFolderBelow(root, join(root, 'a', name, 'c')); }).toThrow(`${join(root, 'a', name)} is a symbolic link`); // prettier-ignore
    }
    writeFileSync(join(root, 'file'), '');
    expect(() => { makeFolderBelow(root, join(root, 'file/c')); }).toThrow('EEXIST'); // prettier-ignore
    expect(readdirSync(folder).sort()).toEqual(['elsewhere', 'root', 'victim']);
  });

  it('of runs have nothing but folders and regular files', async () => {
    mkdirSync(join(folder, 'run/below'), { recursive: true });
    linkSync(victim, join(folder, 'run/hard')); // as copies by `cp -al` have them
    refuseLinksBelow(join(folder, 'run'));
    const place = join(folder, 'run/below/planted');
    symlinkSync('nowhere', place);
    expect(() => { refuseLinksBelow(join(folder, 'run')); }).toThrow(`${place} is a symbolic link; a run has only`); // prettier-ignore
    fs.rmSync(place);
    const server = createServer().listen(place);
    await new Promise((resolve) => server.once('listening', resolve));
    expect(() => { refuseLinksBelow(join(folder, 'run')); }).toThrow(`${place} is not a regular file; a run has only`); // prettier-ignore
    await new Promise((resolve) => server.close(resolve));
  });
});
