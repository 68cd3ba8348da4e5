/** The sources as JavaScript in a folder of their own, file by file and without checking types: a second, not many. */
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { dirname, join, relative, resolve } from 'node:path';
import ts from 'typescript';
import { afterAll } from 'vitest';

const root = resolve(import.meta.dirname, '../..');

export interface TranspiledSources {
  readonly folder: string;
  /** The command line, for processes of its own. */
  readonly main: string;
}

/** For the tests of one file or one group, below the repository's `out`, where packages are found. */
export function transpileForTests(name: string, folders: readonly string[] = ['src']): TranspiledSources {
  const out = join(root, 'out');
  mkdirSync(out, { recursive: true });
  const folder = mkdtempSync(join(out, `${name}-`));
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  transpileInto(folder, folders);
  return { folder, main: join(folder, 'src/cli/main.js') };
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
