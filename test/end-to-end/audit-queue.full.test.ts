/** Audits on the workers of a queue, with a real Redis server: the same bytes, whatever is killed on the way. */
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../src/core/random.js';
import type { FleetEvent } from '../support/fleet-runs.js';
import { readKills, readResults, settingWords, startFleetRun, unitOf } from '../support/fleet-runs.js';
import type { TestRedis } from '../support/guard/redis-server.js';
import { hasRedis, startRedis } from '../support/guard/redis-server.js';
import { createRunner } from '../support/run-command.js';
import { useOwnSessions } from '../support/shared-sessions.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';
import { transpileForTests } from '../support/transpiled-sources.js';

if (!hasRedis) console.warn('redis-server is not installed: the tests of audits on a queue are skipped.');

// Shared sessions have one thread, and sums depend on the threads.
useOwnSessions();
const { folder: build, main } = transpileForTests('audit-queue');
const audits = new TinyAudits(shallow);
afterAll(() => audits.dispose());

const prompts = ['abcdefgh', 'hgfedcba'];

interface TestWorker {
  readonly name: string;
  readonly child: ChildProcess;
  readonly ended: Promise<unknown>;
  readonly lines: string[];
}

describe.skipIf(!hasRedis)('an audit on a queue', () => {
  let common: readonly string[];
  let expected: readonly string[];
  let redis: TestRedis;
  let workers: TestWorker[] = [];
  let started = 0;
  beforeAll(async () => {
    const file = join(build, 'prompts.txt');
    writeFileSync(file, prompts.map((prompt) => `${prompt}\n`).join(''));
    common = [
      ...['--target', audits.targetFolder, '--draft', 'chain:3', '--prompts', file],
      ...['draft model', 'Medusa, torch file'].flatMap((name) => ['--drafter', audits.writeDrafter(name)]),
      // Not the number that the workers would choose.
      ...[...settingWords(), '--transfer', '--universal', '--repeats', '2', '--threads', '3'],
    ];
    const whole = audits.freshFolder();
    expect((await createRunner('audit', audits.cacheFolder)([...common, '--out', whole])).code).toBe(0);
    expected = readResults(whole);
  });
  afterEach(async () => {
    for (const { child } of workers) child.kill('SIGKILL');
    await Promise.all(workers.map(({ ended }) => ended));
    workers = [];
    await redis.stop();
  });

  /** Resolves once it waits for runs. */
  async function startWorker(
    words: readonly string[] = ['--models', dirname(audits.targetFolder)],
  ): Promise<TestWorker> {
    const name = `worker-${(started += 1)}`;
    const own = ['--cache-dir', audits.cacheFolder, '--name', name, '--lease', '2', '--device', 'cpu'];
    const child = spawn(process.execPath, [main, 'worker', ...own, ...words], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, MISTLETOE_QUEUE: redis.url },
    });
    const worker = { name, child, ended: once(child, 'close'), lines: [] as string[] };
    workers.push(worker);
    await new Promise<void>((resolve, reject) => {
      void worker.ended.then(() => {
        reject(new Error(`The worker ended: ${worker.lines.join('\n')}`));
      });
      createInterface({ input: child.stderr }).on('line', (line) => {
        worker.lines.push(line);
        if (line.includes('Waits for runs')) resolve();
      });
    });
    return worker;
  }

  const audit = (own: readonly string[], onEvent?: (event: FleetEvent, child: ChildProcess) => void) =>
    startFleetRun([main, 'audit', ...own, '--cache-dir', audits.cacheFolder], onEvent, {
      MISTLETOE_QUEUE: redis.url,
    }).outcome;

  it('kills of workers, Redis and the submitter change nothing', async () => {
    const random = createRandom(11, 'queue kills');
    const left = readKills({ worker: 2, redis: 1, submitter: 1 });
    const total = (): number => left.worker + left.redis + left.submitter;
    while (total() > 0) {
      const data = audits.freshFolder();
      mkdirSync(data, { recursive: true });
      // Every other server keeps its data.
      const options = left.redis % 2 === 0 ? { folder: data } : {};
      redis = await startRedis(undefined, options);
      await startWorker();
      await startWorker();
      const folder = audits.freshFolder();
      const killsOf = new Map<string, number>();
      let disturbing: Promise<unknown> = Promise.resolve();
      let words = [...common, '--out', folder];
      for (;;) {
        let isOver = false;
        const { code, errors } = await audit(words, (event, submitter) => {
          if (event.worker === undefined || isOver || random.nextInteger(3) > 0) return;
          const kinds = (Object.keys(left) as (keyof typeof left)[]).filter((kind) => left[kind] > 0);
          const kind = kinds[random.nextInteger(Math.max(1, kinds.length))];
          const victim = workers.find(({ name }) => name === event.worker);
          if (kind === 'worker' && victim !== undefined && (killsOf.get(unitOf(event)) ?? 0) < 2) {
            killsOf.set(unitOf(event), (killsOf.get(unitOf(event)) ?? 0) + 1);
            left.worker -= 1;
            victim.child.kill('SIGKILL');
            workers = workers.filter((worker) => worker !== victim);
            disturbing = disturbing.then(() => startWorker());
          } else if (kind === 'redis') {
            left.redis -= 1;
            disturbing = disturbing.then(async () => {
              await redis.stop();
              redis = await startRedis(redis.port, options);
            });
          } else if (kind === 'submitter') {
            left.submitter -= 1;
            isOver = true;
            submitter.kill('SIGKILL');
          }
        });
        await disturbing;
        expect(errors).toBe('');
        if (code !== null) {
          expect(code).toBe(0);
          break;
        }
        words = ['--resume', folder];
      }
      expect(readResults(folder)).toEqual(expected);
      for (const { child } of workers) child.kill('SIGKILL');
      await Promise.all(workers.map(({ ended }) => ended));
      workers = [];
      await redis.stop();
    }
    redis = await startRedis(); // for afterEach
  });

  it('waits for a worker with its models, finds the drafter behind a lookup, and shows no password', async () => {
    const password = 'correct-horse-battery';
    redis = await startRedis(undefined, { password });
    const empty = audits.freshFolder();
    mkdirSync(empty, { recursive: true });
    const poor = await startWorker(['--models', empty]);
    const own = [
      ...['--target', audits.targetFolder, '--drafter', `ngram:1,3+${audits.writeDrafter('draft model')}`],
      ...['--draft', 'chain:3', '--prompt', 'abcdefgh', ...settingWords()],
    ];
    const [folder, local] = [audits.freshFolder(), audits.freshFolder()];
    let rich: Promise<TestWorker> | undefined;
    const { code, errors, events } = await audit([...own, '--out', folder], ({ message = '' }) => {
      if (message.includes('does not have the model')) rich ??= startWorker();
    });
    expect([code, errors]).toEqual([0, '']);
    const outcome = await createRunner('audit', audits.cacheFolder)([...own, '--out', local]);
    expect(outcome.code, outcome.err).toBe(0);
    expect(readResults(folder)).toEqual(readResults(local));
    expect(rich).toBeDefined();
    await rich;
    const said = events.flatMap(({ message }) => message ?? []).join('\n');
    expect(said).toMatch(
      /The worker worker-\d+ does not serve this run: this worker does not have the model target/,
    );
    expect(poor.lines.join('\n')).toContain(
      `Copy the submitter's folder of target to ${join(empty, 'target')}.`,
    );
    const texts = [
      ...readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8')),
      ...workers.flatMap(({ lines }) => lines),
      JSON.stringify(events),
    ];
    expect(texts.filter((text) => text.includes(password))).toEqual([]);
    expect(said).not.toContain(empty);
  });

  it('has the bytes of one process with one, two, and three workers', async () => {
    redis = await startRedis();
    for (let count = 1; count <= 3; count++) {
      await startWorker();
      const folder = audits.freshFolder();
      const { code, errors } = await audit([...common, '--out', folder]);
      expect([code, errors]).toEqual([0, '']);
      expect(readResults(folder)).toEqual(expected);
    }
  });

  it('is shared by two workers, and finished without the queue', async () => {
    redis = await startRedis();
    await startWorker();
    await startWorker();
    const folder = audits.freshFolder();
    const seen = new Set<string>();
    const { code } = await audit([...common, '--out', folder], ({ worker }, submitter) => {
      if (worker !== undefined && seen.add(worker).size === 2) submitter.kill('SIGKILL');
    });
    expect(code).toBe(null);
    await redis.stop();
    const outcome = await createRunner('audit', audits.cacheFolder)(['--resume', folder]);
    expect(outcome.code, outcome.err).toBe(0);
    expect(readResults(folder)).toEqual(expected);
    redis = await startRedis(); // for afterEach
  });
});
