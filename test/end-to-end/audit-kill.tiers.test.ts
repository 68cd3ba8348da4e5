/** Audits in processes of their own that are killed again and again, and must end as if nothing had happened. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { settingWords } from '../support/fleet-runs.js';
import type { Ended, Killing } from '../support/killed-runs.js';
import { killAndResume, runProcess } from '../support/killed-runs.js';
import { createRunner } from '../support/run-command.js';
import { byTier } from '../support/tier.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const { folder: build, main } = transpileForTests('audit-kill');
const audits = new TinyAudits(shallow);
afterAll(() => audits.dispose());

const { kills, drafters, prompts, words } = byTier({
  quick: { kills: 2, drafters: ['Medusa, torch file'], prompts: ['abcdefgh'], words: ['--starts', '1'] },
  full: {
    ...{ kills: 4, drafters: ['draft model', 'Medusa, torch file'] },
    ...{ prompts: ['abcdefgh', 'hgfedcba'], words: ['--transfer'] },
  },
});

const files = ['result.json', 'suffixes.jsonl', 'units.jsonl', 'steps.jsonl', 'config.json'];
const readAll = (folder: string): string[] => files.map((name) => readFileSync(join(folder, name), 'utf8'));

const audit = (own: readonly string[], killing?: Killing): Promise<Ended> =>
  runProcess([main, 'audit', ...own, '--cache-dir', audits.cacheFolder], { killing });

it(`kill -9 at ${kills} random moments leaves no trace`, async () => {
  const file = join(build, 'prompts.txt');
  writeFileSync(file, prompts.map((prompt) => `${prompt}\n`).join(''));
  const common = [
    ...['--target', audits.targetFolder, '--draft', 'chain:3', '--prompts', file, '--threads', '1'],
    ...drafters.flatMap((name) => ['--drafter', audits.writeDrafter(name)]),
    ...[...settingWords(), ...words],
  ];
  const whole = audits.freshFolder();
  const runHere = createRunner('audit', audits.cacheFolder);
  expect((await runHere([...common, '--out', whole])).code).toBe(0);
  const expected = readAll(whole);
  const folders = await killAndResume({
    ...{ kills, maxEvents: 9, freshFolder: () => audits.freshFolder() },
    start: (folder, killing) => audit([...common, '--out', folder], killing),
    resume: (folder, killing) => audit(['--resume', folder], killing),
  });
  for (const folder of folders) expect(readAll(folder)).toEqual(expected);
});
