import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openLibraryCache } from './emulated-cache.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'mistletoe-libraries-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const bytes = 64 * 1024;
const writeLibrary = (output: string): void => {
  writeFileSync(output, new Uint8Array(bytes).fill(1));
};
const age = (name: string, minutes: number): void => {
  const time = new Date(Date.now() - minutes * 60_000);
  utimesSync(join(folder, name), time, time);
};

// Windows has neither the compiler's fibers nor these permissions.
describe.skipIf(process.platform === 'win32')('the cache of compiled libraries', () => {
  it('keeps one file under several names, for other processes too', () => {
    const cache = openLibraryCache([folder], 2 ** 20);
    expect(cache.find('a')).toBeUndefined();
    cache.add(['a', 'b'], writeLibrary);
    expect(readdirSync(folder).sort()).toEqual(['a.so', 'b.so']);
    const [first, second] = ['a', 'b'].map((name) => openLibraryCache([folder], 2 ** 20).find(name)!);
    expect(statSync(first!).ino).toBe(statSync(second!).ino);
  });

  it('keeps what another process stored first, and nothing of a build that fails', () => {
    const cache = openLibraryCache([folder], 2 ** 20);
    cache.add(['a'], (output) => {
      openLibraryCache([folder], 2 ** 20).add(['a'], writeLibrary);
      writeFileSync(output, 'later');
    });
    expect(statSync(cache.find('a')!).size).toBe(bytes);
    const fail = (): void => {
      cache.add(['b'], (output) => {
        writeLibrary(output);
        throw new Error('no such header');
      });
    };
    expect(fail).toThrow('no such header');
    expect(readdirSync(folder)).toEqual(['a.so']);
  });

  it('removes the least recently used libraries once they exceed the limit', () => {
    openLibraryCache([folder], 2 ** 30).add(['old', 'alias'], writeLibrary);
    for (const name of ['used', 'new']) openLibraryCache([folder], 2 ** 30).add([name], writeLibrary);
    age('old.so', 30);
    age('used.so', 40);
    age('new.so', 10);
    const cache = openLibraryCache([folder], 2.5 * bytes);
    expect(cache.find('used')).toBeDefined();
    cache.add(['next'], writeLibrary);
    expect(readdirSync(folder).sort()).toEqual(['new.so', 'next.so', 'used.so']);
  });

  it('removes builds that were interrupted long ago', () => {
    const unfinished = mkdtempSync(join(folder, 'work-'));
    openLibraryCache([folder], 2 ** 20).add(['a'], writeLibrary);
    expect(existsSync(unfinished)).toBe(true);
    age(basename(unfinished), 2 * 24 * 60);
    openLibraryCache([folder], 2 ** 20).add(['b'], writeLibrary);
    expect(existsSync(unfinished)).toBe(false);
  });

  it('skips folders that it cannot make or that others can write to', () => {
    const [file, open, own] = ['file', 'open', 'own'].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    writeFileSync(file, '');
    openLibraryCache([open], 2 ** 20).add(['a'], writeLibrary);
    chmodSync(open, 0o777);
    const folders = [join(file, 'inside'), open];
    expect(() => openLibraryCache(folders, 2 ** 20)).toThrow('Other users can write to');
    openLibraryCache([...folders, own], 2 ** 20).add(['b'], writeLibrary);
    expect([existsSync(join(own, 'b.so')), existsSync(join(open, 'b.so'))]).toEqual([true, false]);
  });
});
