/**
 * Compiled libraries of the emulated device, kept between runs. A library is stored under one or more names, each a hard
 * link, so that it is found by any kernel in it. Several processes may use the folder at once: names appear only with
 * complete files, and a library that is removed stays loaded where it is in use.
 */
import { accessSync, constants, linkSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, utimesSync } from 'node:fs'; // prettier-ignore
import { join } from 'node:path';
import { MistletoeError } from '../../src/core/errors.js';

const unfinishedPrefix = 'work-';
const unfinishedMilliseconds = 24 * 60 * 60 * 1000;

export interface LibraryCache {
  /** The path of a stored library, which counts as used now. */
  readonly find: (name: string) => string | undefined;
  /** Stores the file that `build` writes under all of the names. */
  readonly add: (names: readonly string[], build: (output: string) => void) => void;
}

/**
 * @param folders the first that this process can write to is used
 * @param maxBytes the least recently used libraries beyond this size are removed, once for each process
 */
export function openLibraryCache(folders: readonly string[], maxBytes: number): LibraryCache {
  const folder = folders.find(canUse);
  if (folder === undefined)
    throw new MistletoeError('runtime', `Other users can write to ${folders.join(' and ')}.`, {
      hint: 'Compiled kernels are loaded from there. Remove the folder, or set TMPDIR to another one.',
    });
  let isTrimmed = false;
  const pathOf = (name: string): string => join(folder, `${name}.so`);
  return {
    find(name) {
      const path = pathOf(name);
      try {
        const now = new Date();
        utimesSync(path, now, now);
        return path;
      } catch {
        return undefined;
      }
    },
    add(names, build) {
      if (!isTrimmed) trim(folder, maxBytes);
      isTrimmed = true;
      const work = mkdtempSync(join(folder, unfinishedPrefix));
      try {
        const output = join(work, 'library.so');
        build(output);
        for (const name of names) linkUnlessPresent(output, pathOf(name));
      } finally {
        rmSync(work, { recursive: true, force: true });
      }
    },
  };
}

/** Libraries run in this process, so the folder must belong to its user and be writable by nobody else. */
function canUse(folder: string): boolean {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    accessSync(folder, constants.W_OK);
  } catch {
    return false;
  }
  const { uid, mode } = lstatSync(folder);
  return uid === process.getuid?.() && (mode & 0o022) === 0;
}

/** Another process may have stored the same meanwhile. */
function linkUnlessPresent(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

function trim(folder: string, maxBytes: number): void {
  const entries = readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    const stats = statSync(path, { throwIfNoEntry: false });
    return stats === undefined ? [] : [{ path, stats }];
  });
  for (const { path, stats } of entries)
    if (stats.isDirectory() && Date.now() - stats.mtimeMs > unfinishedMilliseconds)
      rmSync(path, { recursive: true, force: true });
  const libraries = entries
    .filter(({ stats }) => stats.isFile())
    .sort((a, b) => b.stats.mtimeMs - a.stats.mtimeMs);
  const counted = new Set<number>();
  let total = 0;
  for (const { path, stats } of libraries) {
    if (!counted.has(stats.ino)) total += 512 * stats.blocks;
    counted.add(stats.ino);
    if (total > maxBytes) rmSync(path, { force: true });
  }
}
