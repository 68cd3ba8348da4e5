/** Audits with workers: the same bytes with any number of them, as processes or threads, and whichever of them die. */
import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createRequest } from '../../src/audit/audit-request.js';
import { AuditSchedule } from '../../src/audit/units/audit-schedule.js';
import type { AuditUnitInput } from '../../src/audit/units/audit-unit.js';
import type { WorkerSetup } from '../../src/audit/units/audit-worker.js';
import { createRandom } from '../../src/core/random.js';
import { UnitPool } from '../../src/runs/unit-pool.js';
import type { UnitPart } from '../../src/runs/unit.js';
import { processorDevice } from '../../src/runtime/device-choice.js';
import type { FleetEvent, FleetOutcome } from '../support/fleet-runs.js';
import { readKills, readResults, settingWords, startFleetRun, unitOf } from '../support/fleet-runs.js';
import { createRunner } from '../support/run-command.js';
import { useOwnSessions } from '../support/shared-sessions.js';
import { byTier, isFullTier } from '../support/tier.js';
import { briefSettings, TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';
import { transpileForTests } from '../support/transpiled-sources.js';

// Shared sessions have one thread, and sums depend on the threads.
useOwnSessions();
const { folder: build, main } = transpileForTests('audit-workers');
const audits = new TinyAudits(shallow);
afterAll(() => audits.dispose());

const prompts = ['abcdefgh', 'hgfedcba'];
const promptFile = join(build, 'prompts.txt');
const { drafters, words, ...few } = byTier({
  quick: { kills: 1, drafters: ['Medusa, torch file'], words: ['--starts', '1', '--steps', '1'] },
  full: {
    ...{ kills: 4, drafters: ['draft model', 'Medusa, torch file'] },
    words: ['--transfer', '--universal', '--repeats', '2'],
  },
});

const kills = isFullTier ? readKills({ worker: few.kills, redis: 0, submitter: 0 }).worker : few.kills;

let common: readonly string[];
let expected: readonly string[];
beforeAll(async () => {
  writeFileSync(promptFile, prompts.map((prompt) => `${prompt}\n`).join(''));
  common = [
    ...['--target', audits.targetFolder, '--draft', 'chain:3', '--prompts', promptFile],
    ...drafters.flatMap((name) => ['--drafter', audits.writeDrafter(name)]),
    ...[...settingWords(), ...words, '--threads', '2'],
  ];
  const whole = audits.freshFolder();
  const outcome = await createRunner('audit', audits.cacheFolder)([...common, '--out', whole]);
  expect(outcome.code, outcome.err).toBe(0);
  expected = readResults(whole);
});

function audit(
  own: readonly string[],
  onEvent?: (event: FleetEvent, child: ChildProcess) => void,
): Promise<FleetOutcome> {
  return startFleetRun([main, 'audit', ...own, '--cache-dir', audits.cacheFolder], onEvent).outcome;
}

const andRun = isFullTier ? ', and of the run with its workers,' : '';
it(`${kills} kills of random workers${andRun} leave the bytes of one process`, async () => {
  const random = createRandom(3, 'worker kills');
  let killed = 0;
  let isRunKilled = !isFullTier;
  while (killed < kills || !isRunKilled) {
    const folder = audits.freshFolder();
    const killsOf = new Map<string, number>();
    const pids = new Set<number>();
    const names = new Set<string>();
    let own = [...common, '--out', folder, '--workers', '2'];
    for (;;) {
      const { code, errors } = await audit(own, (event, run) => {
        const { pid, step, worker } = event;
        const unit = unitOf(event);
        if (worker !== undefined) names.add(worker);
        if (pid === undefined || step === undefined || pids.has(pid)) return;
        if (!isRunKilled && killed >= kills / 2) {
          isRunKilled = true;
          run.kill('SIGKILL');
          return;
        }
        // A third kill would be the unit's fault.
        if (killed >= kills || (killsOf.get(unit) ?? 0) >= 2 || random.nextInteger(3) > 0) return;
        pids.add(pid);
        killsOf.set(unit, (killsOf.get(unit) ?? 0) + 1);
        killed += 1;
        process.kill(pid, 'SIGKILL');
      });
      expect(errors).toBe('');
      if (code !== null) {
        expect(code).toBe(0);
        break;
      }
      own = ['--resume', folder, '--workers', '3'];
    }
    expect([...names]).toEqual(expect.arrayContaining(['worker-1', 'worker-2']));
    expect(readResults(folder)).toEqual(expected);
  }
});

it.runIf(isFullTier)('two and three workers leave the bytes of one process', async () => {
  for (const count of ['2', '3']) {
    const folder = audits.freshFolder();
    const { code, errors } = await audit([...common, '--workers', count, '--out', folder]);
    expect([code, errors]).toEqual([0, '']);
    expect(readResults(folder)).toEqual(expected);
  }
});

it('a thread computes the parts of a process', async () => {
  const plan = audits.plan([audits.writeDrafter(drafters[0]!)], prompts.slice(0, 1), {
    settings: briefSettings,
  });
  const request = await createRequest(plan);
  const unit = new AuditSchedule(request, { has: () => false, get: () => undefined }).next()!;
  const [{ sha256, folder }] = request.drafters as [(typeof request.drafters)[0]];
  const setup: WorkerSetup = {
    folders: { [request.target.sha256]: request.targetFolder, [sha256]: folder },
    ...{ device: processorDevice, threads: 1, cacheFolder: audits.cacheFolder, verifyCache: false },
  };
  const compute = async (gpu: number | undefined): Promise<readonly UnitPart[]> => {
    const pool = new UnitPool<AuditUnitInput>({
      program: join(build, 'src/audit/units/unit-process.js'),
      workers: [{ name: 'only', gpu, setup }],
    });
    const parts: UnitPart[] = [];
    try {
      expect(await pool.ask(request)).toHaveProperty('expectedMs');
      await pool.run(unit, { onPart: (part) => void parts.push({ ...part, timing: null }) });
    } finally {
      await pool.close();
    }
    return parts;
  };
  const parts = await compute(0);
  expect(parts.length).toBeGreaterThan(1);
  expect(parts).toEqual(await compute(undefined));
});

it.runIf(isFullTier)(
  'a unit that ends its worker three times is skipped with its error, and the rest is audited',
  async () => {
    const folder = audits.freshFolder();
    const dead = new Set<number>();
    const own = [
      ...['--target', audits.targetFolder, '--drafter', audits.writeDrafter(drafters[0]!)],
      ...['--draft', 'chain:3', '--prompts', promptFile, ...settingWords()],
      // So long that the worker is dead before the search ends.
      ...['--steps', '30', '--patience', '30'],
    ];
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
