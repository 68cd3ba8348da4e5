/**
 * The sources as JavaScript, file by file and without checking types. A run transpiles them once, when the first test needs
 * them; each test file gets its own folder with links to them.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { afterAll } from 'vitest';

const root = resolve(import.meta.dirname, '../..');

export interface TranspiledSources {
  readonly folder: string;
  /** The command line, for processes of its own. */
  readonly main: string;
}

/** For the tests of one file or one group: a folder to write to, in which `folders` lie under their names. */
export function transpileForTests(name: string, folders: readonly string[] = ['src']): TranspiledSources {
  const builds = process.env.MISTLETOE_TEST_BUILDS!; // temporary-home.ts
  const folder = mkdtempSync(join(builds, `${name}-`));
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  provide(folders, builds);
  for (const own of folders) {
    const link = join(folder, own);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(builds, own), link, 'junction');
  }
  return { folder, main: join(builds, 'src/cli/main.js') };
}

function provide(folders: readonly string[], builds: string): void {
  const missing = folders.filter((folder) => !existsSync(join(builds, folder)));
  if (missing.length === 0) return;
  const work = mkdtempSync(join(builds, 'work-'));
  transpileInto(work, missing);
  for (const folder of missing) {
    const path = join(builds, folder);
    mkdirSync(dirname(path), { recursive: true });
    try {
      renameSync(join(work, folder), path);
    } catch (error) {
      if (!existsSync(path)) throw error; // else another worker was first
    }
  }
  rmSync(work, { recursive: true, force: true });
}

/** Folders are relative to the repository's root, and keep their paths below `build`. */
export function transpileInto(build: string, folders: readonly string[]): void {
  execFileSync(process.execPath, [join(import.meta.dirname, 'transpile.js'), root, build, ...folders]);
}
