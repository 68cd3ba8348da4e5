/**
 * The sources as JavaScript, file by file and without checking types: seconds, not many. A run makes them once, when a test
 * first asks for them; each test file has a folder of its own, with links to them.
 */
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { dirname, join, relative, resolve } from 'node:path';
import ts from 'typescript';
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
  for (const own of folders) {
    const link = join(folder, own);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(provide(own, builds), link, 'junction');
  }
  return { folder, main: join(builds, 'src/cli/main.js') };
}

function provide(folder: string, builds: string): string {
  const path = join(builds, folder);
  if (existsSync(path)) return path;
  const work = mkdtempSync(join(builds, 'work-'));
  transpileInto(work, [folder]);
  mkdirSync(dirname(path), { recursive: true });
  try {
    renameSync(join(work, folder), path);
  } catch (error) {
    if (!existsSync(path)) throw error; // else another worker was first
  }
  rmSync(work, { recursive: true, force: true });
  return path;
}

/** Folders are named from the repository's root and lie below `build` under the same names. */
export function transpileInto(build: string, folders: readonly string[]): void {
  for (const folder of folders) transpileFolder(join(root, folder), build);
}

function transpileFolder(folder: string, build: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    const target = join(build, relative(root, path));
    if (entry.isDirectory()) transpileFolder(path, build);
    else if (/\.js$|(?<!\.test|\.d)\.ts$/.test(entry.name)) {
      mkdirSync(dirname(target), { recursive: true });
      if (entry.name.endsWith('.js')) copyFileSync(path, target);
      else writeFileSync(target.replace(/ts$/, 'js'), transpile(readFileSync(path, 'utf8')));
    }
  }
}

function transpile(source: string): string {
  const { ScriptTarget, ModuleKind } = ts;
  const compilerOptions = {
    target: ScriptTarget.ES2022,
    module: ModuleKind.ESNext,
    verbatimModuleSyntax: true,
  };
  return ts.transpileModule(source, { compilerOptions }).outputText;
}
