/** The sources as JavaScript in a folder of their own, file by file and without checking types: a second, not many. */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import ts from 'typescript';

const root = resolve(import.meta.dirname, '../..');

/** Below the repository's `out`, where packages are found. */
export function transpileInto(name: string, folders: readonly string[]): string {
  const build = join(root, 'out', name);
  for (const folder of folders) transpileFolder(join(root, folder), build);
  return build;
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
