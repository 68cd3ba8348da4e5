/** Audits with worker processes: the same bytes with any number of them, and whichever of them die. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createRandom } from '../../src/core/random.js';
import type { FleetEvent, FleetOutcome } from '../support/fleet-runs.js';
import { readKills, readResults, settingWords, startFleetRun, unitOf } from '../support/fleet-runs.js';
import { createRunner } from '../support/run-command.js';
import { byTier, isFullTier } from '../support/tier.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const { folder: build, main } = transpileForTests('audit-workers');
const audits = new TinyAudits(shallow);
afterAll(() => audits.dispose());

const { drafters, prompts, counts, words, ...few } = byTier({
  quick: {
    ...{ kills: 1, drafters: ['Medusa, torch file'], prompts: ['abcdefgh', 'hgfedcba'], counts: [2] },
    words: ['--starts', '1', '--steps', '1'],
  },
  full: {
    ...{ kills: 5, drafters: ['draft model', 'Medusa, torch file'], counts: [4] },
    prompts: ['abcdefgh', 'hgfedcba', 'abababab', 'cdefghij', 'jihgfedc', 'aabbccdd'],
    words: ['--transfer', '--universal', '--repeats', '2'],
  },
});

const kills = isFullTier ? readKills({ worker: few.kills, redis: 0, submitter: 0 }).worker : few.kills;

let common: readonly string[];
let expected: readonly string[];
beforeAll(async () => {
  const file = join(build, 'prompts.txt');
  writeFileSync(file, prompts.map((prompt) => `${prompt}\n`).join(''));
  common = [
    ...['--target', audits.targetFolder, '--draft', 'chain:3', '--prompts', file],
    ...drafters.flatMap((name) => ['--drafter', audits.writeDrafter(name)]),
    ...[...settingWords(), ...words],
  ];
  const whole = audits.freshFolder();
  const outcome = await createRunner('audit', audits.cacheFolder)([...common, '--out', whole]);
  expect(outcome.code, outcome.err).toBe(0);
  expected = readResults(whole);
});

function audit(own: readonly string[], onEvent?: (event: FleetEvent) => void): Promise<FleetOutcome> {
  return startFleetRun([main, 'audit', ...own, '--cache-dir', audits.cacheFolder], onEvent).outcome;
}

it.runIf(isFullTier).each(counts)('%i workers write the bytes of one process', async (count) => {
  const folder = audits.freshFolder();
  const { code, errors, events } = await audit([...common, '--workers', String(count), '--out', folder]);
  expect([code, errors]).toEqual([0, '']);
  expect(readResults(folder)).toEqual(expected);
  const workers = new Set(events.flatMap(({ worker }) => worker ?? []));
  expect([...workers].sort()).toEqual(Array.from({ length: count }, (_, index) => `worker-${index + 1}`));
});

it(`${kills} kills of random workers leave the bytes of one process`, async () => {
  const random = createRandom(3, 'worker kills');
  let killed = 0;
  while (killed < kills) {
    const folder = audits.freshFolder();
    const killsOf = new Map<string, number>();
    const pids = new Set<number>();
    const { code, errors } = await audit([...common, '--workers', '2', '--out', folder], (event) => {
      const { pid, step } = event;
      const unit = unitOf(event);
      if (pid === undefined || step === undefined || pids.has(pid) || killed >= kills) return;
      // A third kill would be the unit's fault.
      if ((killsOf.get(unit) ?? 0) >= 2 || random.nextInteger(3) > 0) return;
      pids.add(pid);
      killsOf.set(unit, (killsOf.get(unit) ?? 0) + 1);
      killed += 1;
      process.kill(pid, 'SIGKILL');
    });
    expect([code, errors]).toEqual([0, '']);
    expect(readResults(folder)).toEqual(expected);
  }
});

it.runIf(isFullTier)(
  'a unit that ends its worker three times is skipped with its error, and the rest is audited',
  async () => {
    const folder = audits.freshFolder();
    const dead = new Set<number>();
    const own = common.filter((word) => !['--transfer', '--universal'].includes(word));
    const { code, errors, events } = await audit([...own, '--workers', '2', '--out', folder], (event) => {
      const { pid, prompt, arm } = event;
      if (pid === undefined || dead.has(pid) || arm !== 'attack' || prompt !== 'prompt-1') return;
      dead.add(pid);
      process.kill(pid, 'SIGKILL');
    });
    expect([code, errors]).toEqual([0, '']);
    const [result] = readResults(folder);
    const { drafters: results } = JSON.parse(result!) as {
      readonly drafters: readonly { prompts: readonly { skipped: string | null }[] }[];
    };
    for (const { prompts: rows } of results) {
      expect(rows[0]!.skipped).toBe('It failed: the worker ended with SIGKILL (3 attempts)');
      expect(rows.slice(1).every(({ skipped }) => skipped === null)).toBe(true);
    }
    const said = events.flatMap(({ message }) => message ?? []).join('\n');
    expect(said).toMatch(/prompt-1\/attack failed: the worker ended with SIGKILL \(3 attempts\)/);
    expect(said).toContain('Attempt 3 of 3 follows.');
  },
);

it.runIf(isFullTier)('a run that was killed with its workers resumes with others', async () => {
  const folder = audits.freshFolder();
  let seen = 0;
  const { child, outcome } = startFleetRun(
    [main, 'audit', ...common, '--workers', '2', '--out', folder, '--cache-dir', audits.cacheFolder],
    ({ step }, own) => {
      if (step !== undefined && (seen += 1) === 2) own.kill('SIGKILL');
    },
  );
  expect(child.pid).toBeGreaterThan(0);
  expect((await outcome).code).toBe(null);
  const { code, errors } = await audit(['--resume', folder, '--workers', '3']);
  expect([code, errors]).toEqual([0, '']);
  expect(readResults(folder)).toEqual(expected);
});
