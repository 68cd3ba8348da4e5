/** The command line in processes of its own, transpiled file by file without checking types: seconds, not a minute. */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import ts from 'typescript';

const source = resolve(import.meta.dirname, '../../src');
const compilerOptions = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.ESNext,
  verbatimModuleSyntax: true,
};

/** Inside the repository, so that packages are found; returns the path of main.js. */
export function transpileCommandLine(build: string, folder = source): string {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    const target = join(build, relative(source, path));
    if (entry.isDirectory()) transpileCommandLine(build, path);
    else if (entry.name.endsWith('.js')) {
      mkdirSync(dirname(target), { recursive: true });
      copyFileSync(path, target);
    } else if (!/\.(test|d)\.ts$/.test(entry.name)) {
      const { outputText } = ts.transpileModule(readFileSync(path, 'utf8'), { compilerOptions });
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target.replace(/ts$/, 'js'), outputText);
    }
  }
  return join(build, 'cli/main.js');
}
