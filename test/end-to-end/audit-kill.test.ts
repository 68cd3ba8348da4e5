/** Audits in processes of their own that are killed again and again, and must end as if nothing had happened. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../src/core/random.js';
import { TinyAudits, tinySettings } from '../support/tiny-audit.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const { folder: build, main } = transpileForTests('audit-kill');
const audits = new TinyAudits();
const wantedKills = 20;
/** Progress events after which a process is killed, at most; a whole audit has about 80. */
const mostEvents = 9;

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

interface Killing {
  readonly events: number;
  readonly delayMs: number;
}

/** The exit code, or undefined where the process was killed. */
async function audit(words: readonly string[], killing?: Killing): Promise<number | undefined> {
  const { cacheFolder } = audits;
  const child = spawn(
    process.execPath,
    [main, 'audit', ...words, '--progress', 'json', '--cache-dir', cacheFolder],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let heard = 0;
  let errors = '';
  createInterface({ input: child.stderr }).on('line', (line) => {
    if (!line.startsWith('{')) errors += `${line}\n`;
    if ((heard += 1) === killing?.events) setTimeout(() => child.kill('SIGKILL'), killing.delayMs);
  });
  const [code] = (await once(child, 'close')) as [number | null];
  if (errors !== '') throw new Error(errors);
  return code ?? undefined;
}

describe('kill -9', () => {
  it(`at ${wantedKills} random moments leaves no trace`, async () => {
    const files = ['result.json', 'suffixes.jsonl', 'units.jsonl', 'steps.jsonl', 'config.json'];
    const readAll = (folder: string): string[] =>
      files.map((name) => readFileSync(join(folder, name), 'utf8'));
    const whole = audits.freshFolder();
    expect(await audit(startWords(whole))).toBe(0);
    const expected = readAll(whole);
    const random = createRandom(7, 'kills');
    let kills = 0;
    while (kills < wantedKills) {
      const folder = audits.freshFolder();
      let words = startWords(folder);
      for (;;) {
        const moment = { events: 1 + random.nextInteger(mostEvents), delayMs: random.nextInteger(40) };
        const killing = kills < wantedKills ? moment : undefined;
        const code = await audit(words, killing);
        if (code !== undefined) {
          expect(code).toBe(0);
          break;
        }
        kills += 1;
        words = ['--resume', folder];
      }
      expect(readAll(folder)).toEqual(expected);
    }
  }, 600_000);
});
