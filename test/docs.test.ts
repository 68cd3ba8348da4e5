/** What the docs name exists: files, anchors, npm scripts, commands and flags. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { run } from '../src/cli/program.js';
import { createFakeTerminal } from './support/fake-terminal.js';

const root = resolve(import.meta.dirname, '..');
const pages = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'models/README.md'],
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
].map((name) => ({ name, path: join(root, name), text: readFileSync(join(root, name), 'utf8') }));
/** Notebook pages are dated and name what existed then. */
const current = pages.filter(({ name }) => !name.startsWith('docs/notebook/'));

const withoutCode = (text: string): string =>
  text.replace(/^(```|~~~)[\s\S]*?^\1/gm, '').replace(/`[^`\n]*`/g, '');

/** As GitHub makes them: lower case, punctuation dropped, spaces to dashes. */
const anchorsOf = (text: string): ReadonlySet<string> =>
  new Set(
    [...text.replace(/^(```|~~~)[\s\S]*?^\1/gm, '').matchAll(/^#+\s+(.*)$/gm)].map(([, heading]) =>
      heading!
        .toLowerCase()
        .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
        .replace(/[^\p{L}\p{N}\s_-]/gu, '')
        .trim()
        .replace(/\s/g, '-'),
    ),
  );

describe('links', () => {
  it.each(pages)('of $name resolve', ({ path, text }) => {
    const broken = [...withoutCode(text).matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, link]) => link!)
      .filter((link) => !/^[a-z]+:/.test(link))
      .filter((link) => {
        const [file, anchor] = link.split('#', 2);
        const target = file === '' ? path : resolve(dirname(path), file!);
        if (!existsSync(target)) return true;
        if (anchor === undefined || !target.endsWith('.md')) return false;
        return !anchorsOf(readFileSync(target, 'utf8')).has(anchor);
      });
    expect(broken).toEqual([]);
  });

  it('reach every page from the index', () => {
    const index = readFileSync(join(root, 'docs/README.md'), 'utf8');
    const missing = pages
      .map(({ path }) => relative(join(root, 'docs'), path))
      .filter((name) => !name.startsWith('..') && name !== 'README.md')
      .filter((name) => !index.includes(`(${name})`));
    expect(missing).toEqual([]);
  });
});

describe('files and scripts', () => {
  const scripts = (
    JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
  ).scripts;

  it.each(current)('that $name names exist', ({ text }) => {
    const files = [...text.matchAll(/`((?:src|test|bench|examples|models\/reference|pack)\/[\w./-]*)`/g)].map(
      ([, file]) => file!,
    );
    expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
    const named = [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name]) => name!);
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });
});

describe('the step', () => {
  it('is shown as it is in code', () => {
    const page = readFileSync(join(root, 'docs/architecture.md'), 'utf8');
    const [, shown] = /^## The step$[^]*?^```ts\n([^]*?)^```$/m.exec(page)!;
    const code = readFileSync(join(root, 'src/decode/engine.ts'), 'utf8').replace(/^ {2}/gm, '');
    expect(shown).toMatch(/^private async step\(\)/);
    expect(code).toContain(shown);
  });
});

describe('commands', () => {
  const helps = new Map<string, Promise<string>>();
  const helpOf = (words: readonly string[]): Promise<string> => {
    const key = words.join(' ');
    const known = helps.get(key);
    if (known !== undefined) return known;
    const terminal = createFakeTerminal();
    const help = run([...words, '--help-all'], terminal).then(() => terminal.written.out);
    helps.set(key, help);
    return help;
  };

  it.each(current)('of $name have the flags it gives them', async ({ text }) => {
    const unknown: string[] = [];
    // Examples of errors use wrong flags on purpose.
    const right = text.replace(/^\$ .*\nerror: /gm, '');
    for (const [line] of right.matchAll(/(?<![\w/@-])mistletoe (?:[a-z]+)[^`\n|]*/g)) {
      const words = line.split(/\s+/).slice(1);
      const command = words.slice(0, words[0] === 'guard' && words[1] === 'replay' ? 2 : 1);
      const flags = words
        .filter((word) => /^--[a-z]/.test(word))
        .map((word) => word.replace(/[=,.:;)].*$/, ''));
      if (flags.length === 0) continue;
      const help = await helpOf(command);
      for (const flag of flags)
        if (!new RegExp(`${flag}(?![\\w-])`).test(help)) unknown.push(`${command.join(' ')} ${flag}`);
    }
    expect(unknown).toEqual([]);
  });
});
