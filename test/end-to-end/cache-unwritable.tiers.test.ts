/** Commands whose cache folder cannot be made: they note it, keep the weights in memory and go on. */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../support/checkpoint/temporary-folder.js';
import { createRunner } from '../support/run-command.js';
import { casesOfTier } from '../support/tier.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';

const temporary = makeTemporaryFolder();
const audits = new TinyAudits(shallow);
afterAll(async () => {
  await audits.dispose();
  temporary.remove();
});

const file = join(temporary.path, 'file');
writeFileSync(file, '');
const prompts = join(temporary.path, 'prompts.txt');
writeFileSync(prompts, 'abc\n');
const pair = ['--target', audits.targetFolder, '--drafter', audits.writeDrafter('Medusa, torch file')];
const brief = ['-n', '4', '--draft', 'chain:2', '--threads', '1'];
const audit = [
  ...[...pair, '--prompt', 'abcdefgh'],
  ...['--draft', 'chain:3', '--threads', '1', '--preset', 'quick', '--raw', '--keep', 'distribution'],
  ...['--suffix-length', '5', '--window', '8', '--max-new-tokens', '20', '--epsilon', '3'],
  ...['--shortest-answer', '8', '--steps', '1', '--candidates', '8', '--starts', '2', '--progress', 'plain'],
];

/** `out` is a folder for what a command leaves. */
const commands: readonly (readonly [command: string, argv: (out: string) => readonly string[]])[] = [
  ['generate', () => [...pair, ...brief, '--raw', '--prompt', 'abc']],
  ['bench', () => [...pair, ...brief, '--prompts', prompts, '--progress', 'plain']],
  ['audit', () => [...audit, '--dry-run']],
  ['audit', (out) => [...audit, '--out', out]],
  ['demo', () => ['--act', '1']],
];
const places = [join(file, 'cache'), ...(existsSync('/proc/self') ? ['/proc/x'] : [])];
const cases = commands.flatMap(([command, argv]) => places.map((place) => [command, place, argv] as const));

it.each(casesOfTier(cases, ([command, place]) => command !== 'demo' && place !== '/proc/x'))(
  '%s with its cache in %s',
  async (command, place, argv) => {
    const { code, err } = await createRunner(command, place)(argv(audits.freshFolder()));
    expect(err).toMatch(/could not be written to .*\. The weights are kept in memory/);
    expect(err).not.toMatch(/bug in Mistletoe/);
    expect(code).toBe(0);
  },
);
