/** `mistletoe harden` with other audits, baselines and systems, and killed in each phase. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HardeningResult } from '../../src/train/harden/hardening-result.js';
import { runProcess } from '../support/killed-runs.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { transpileForTests } from '../support/transpiled-sources.js';
import { HardenCommands, readDrafter, readResult, readWeights } from './harden-commands.js';

const { main } = transpileForTests('harden');
const commands = new HardenCommands({ ...tiny, layerCount: 3 }, 'draft model', ['margin', 'kl']);
afterAll(() => commands.dispose());
/** Audits of one prompt from one start: what they measure is not the matter here. */
const brief = ['--limit', '1', '--starts', '1', '--finalists', '1', '--audit-steps', '1'];
let whole: string;
beforeAll(async () => {
  const { folder, code, err } = await commands.run([...brief, '--progress', 'none']);
  expect([code, err]).toEqual([0, '']);
  whole = folder;
});

it('searches longer and changes the weights in every round', () => {
  const { rounds } = readResult(whole);
  const efforts = rounds.hardened.map(({ searchSteps, updates }) => [searchSteps, updates]);
  expect(efforts).toEqual([2, 3].map((steps) => [steps, 4]));
  const weights = ['hardened', 'random'].flatMap((role) =>
    [1, 2].map((round) => readWeights(whole, role, round)),
  );
  const all = [...weights, readDrafter(commands.drafter)].map((bytes) => bytes.toString('base64'));
  expect(new Set(all).size).toBe(5);
});

it('leaves answers that the next one takes, which becomes the same drafter', async () => {
  const folder = commands.freshFolder();
  const fewer = ['--rounds', '1', '--baseline', 'none', ...brief];
  const next = await commands.harden([
    ...[...commands.begin(folder), ...fewer, '--answers', whole, '--progress', 'plain'],
  ]);
  expect(next.code).toBe(0);
  expect(next.err).not.toContain('answers:');
  expect(readWeights(folder, 'hardened', 1).equals(readWeights(whole, 'hardened', 1))).toBe(true);
  const other = await commands.harden([
    ...commands.begin(commands.freshFolder()),
    '--answers',
    commands.models.targetFolder,
  ]);
  expect(other.code).toBe(2);
  expect(other.err).toContain('is no run with answers of a target.');
});

describe('other runs', () => {
  const small = [
    ...['--rounds', '1', '--prompts-per-round', '1', '--baseline', 'none', '--progress', 'none', ...brief],
  ];

  it('audit with another objective and with ten times the steps, on prompts of several sets', async () => {
    const folder = commands.freshFolder();
    const more = `${commands.freshFolder()}.txt`;
    writeFileSync(more, 'hgfedcbahgfe\n');
    const { code, out } = await commands.harden([
      ...[...commands.begin(folder), '--prompts', more, '--audit-steps', '1', ...small],
      ...['--audits', 'stronger,other-objective', '--stronger-prompts', '1', '--format', 'json'],
    ]);
    expect(code).toBe(0);
    const { audits, rounds } = JSON.parse(out) as HardeningResult;
    expect(
      audits.map(({ audit, objective, steps, prompts: count }) => [audit, objective, steps, count]),
    ).toEqual([
      ...[
        ['fresh', 'margin', 1, 2],
        ['other-objective', 'total-variation', 1, 2],
        ['stronger', 'margin', 10, 1],
      ],
    ]);
    expect(audits.every(({ rows, changes }) => rows.length === 2 && changes.length === 1)).toBe(true);
    expect(rounds.random).toEqual([]);
    const page = readFileSync(join(folder, 'report.html'), 'utf8');
    for (const { audit } of audits) expect(page).toContain(`href="audits/${audit}/report.html"`);
  });

  it.each(['Medusa, torch file', 'EAGLE-3 with d2t'])('harden %s', async (variant) => {
    const folder = commands.freshFolder();
    const own = ['--drafter', commands.models.writeDrafter(variant), '--chain', '2', '--depth', '1'];
    const { code, err } = await commands.harden([...commands.begin(folder), ...small, ...own]);
    expect([code, err]).toEqual([0, '']);
    expect(existsSync(join(folder, 'hardened/round-1/last'))).toBe(true);
  });
});

/** The exit code, or undefined where the process was killed as soon as it began what has this name. */
async function hardenUntil(words: readonly string[], label: string): Promise<number | undefined> {
  const { code, errors } = await runProcess(
    [main, 'harden', ...words, '--cache-dir', commands.models.cacheFolder],
    // At its first result, when something of it may be half written.
    { killing: { when: (line) => isAt(label, line) } },
  );
  if (errors !== '') throw new Error(errors);
  return code;
}

function isAt(label: string, line: string): boolean {
  const { label: present, done = 0 } = JSON.parse(line) as { label?: string; done?: number };
  return present === label && done > 0;
}

const phases = ['round 1/2, search', 'random suffixes, round 1/2, train', 'audit'];

it('kill -9 in the search, the training and the audit leaves no trace, with workers and without', async () => {
  let folder = commands.freshFolder();
  let words = [...commands.begin(folder), ...brief];
  let kills = 0;
  for (const phase of phases) {
    // The first two rounds of searches are those of two workers.
    const workers = phase === 'audit' ? [] : ['--workers', '2'];
    // A kill that comes late may find the run at its end: the next phase is then killed in another one.
    if ((await hardenUntil([...words, ...workers], phase)) === undefined) kills += 1;
    else words = [...commands.begin((folder = commands.freshFolder())), ...brief];
    if (existsSync(join(folder, 'config.json'))) words = ['--resume', folder];
  }
  expect(kills).toBeGreaterThanOrEqual(phases.length - 1);
  expect(await hardenUntil(words, 'never')).toBe(0);
  expect(readResult(folder)).toEqual(readResult(whole));
  for (const role of ['hardened', 'random'])
    expect(readWeights(folder, role, 2).equals(readWeights(whole, role, 2))).toBe(true);
});
