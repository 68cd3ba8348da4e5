/**
 * The page's script, read from the files beside this one when the page is first asked for. In the package they are
 * JavaScript. In a checkout they are not compiled yet, but the compiler that would do it is at hand.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { MistletoeError } from '../core/errors.js';
import { joinModules } from './joined-modules.js';

const root = resolve(import.meta.dirname, '..');

export function readClientScript(): string {
  return joinModules('dashboard/client/main.js', 'start(globalThis)', readModule);
}

function readModule(path: string): string {
  const compiled = resolve(root, path);
  if (existsSync(compiled)) return readFileSync(compiled, 'utf8');
  const source = compiled.replace(/\.js$/, '.ts');
  if (existsSync(source)) return compile(readFileSync(source, 'utf8'));
  throw new MistletoeError('runtime', `The page needs ${compiled}, which does not exist.`, {
    hint: 'Install the package again: a part of it is missing.',
  });
}

function compile(source: string): string {
  const ts = createRequire(import.meta.url)('typescript') as typeof import('typescript');
  const { ScriptTarget, ModuleKind } = ts;
  const compilerOptions = {
    target: ScriptTarget.ES2022,
    module: ModuleKind.ESNext,
    verbatimModuleSyntax: true,
  };
  return ts.transpileModule(source, { compilerOptions }).outputText;
}
