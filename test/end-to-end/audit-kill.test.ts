/** Audits in processes of their own that are killed again and again, and must end as if nothing had happened. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Ended, Killing } from '../support/killed-runs.js';
import { killAndResume, runProcess } from '../support/killed-runs.js';
import { TinyAudits, tinySettings } from '../support/tiny-audit.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const { folder: build, main } = transpileForTests('audit-kill');
const audits = new TinyAudits();

const prompts = join(build, 'prompts.txt');
let drafters: readonly string[];
beforeAll(() => {
  writeFileSync(prompts, 'abcdefgh\nhgfedcba\n');
  drafters = ['draft model', 'EAGLE-3 with d2t'].map((name) => audits.writeDrafter(name));
});
afterAll(async () => {
  await audits.dispose();
});

function settingWords(): string[] {
  const numbers = Object.entries(tinySettings).filter(([name]) => name !== 'chat');
  const named = numbers.flatMap(([name, value]) => [
    `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
    String(value),
  ]);
  return [...named, '--raw'];
}

function startWords(out: string): string[] {
  return [
    ...['--target', audits.targetFolder, '--draft', 'chain:3', '--prompts', prompts, '--out', out],
    ...drafters.flatMap((folder) => ['--drafter', folder]),
    ...['--threads', '1', '--transfer', ...settingWords()],
  ];
}

function audit(words: readonly string[], killing?: Killing): Promise<Ended> {
  return runProcess([main, 'audit', ...words, '--cache-dir', audits.cacheFolder], { killing });
}

describe('kill -9', () => {
  it('at 20 random moments leaves no trace', async () => {
    const files = ['result.json', 'suffixes.jsonl', 'units.jsonl', 'steps.jsonl', 'config.json'];
    const readAll = (folder: string): string[] =>
      files.map((name) => readFileSync(join(folder, name), 'utf8'));
    const whole = audits.freshFolder();
    expect(await audit(startWords(whole))).toEqual({ code: 0, errors: '' });
    const expected = readAll(whole);
    const folders = await killAndResume({
      ...{ kills: 20, mostEvents: 9, freshFolder: () => audits.freshFolder() },
      start: (folder, killing) => audit(startWords(folder), killing),
      resume: (folder, killing) => audit(['--resume', folder], killing),
    });
    for (const folder of folders) expect(readAll(folder)).toEqual(expected);
  }, 600_000);
});
