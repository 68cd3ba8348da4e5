/** Units through a real Redis server: what is lost, doubled, forged or refused there. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TestRedis } from '../../../test/support/guard/redis-server.js';
import { hasRedis, startRedis } from '../../../test/support/guard/redis-server.js';
import { readVersion } from '../identity.js';
import type { Unit, UnitExecutor, UnitPart } from '../unit.js';
import { UnitFailed } from '../unit.js';
import { parseQueueUrl, QueueConnection } from './queue-connection.js';
import { QueueExecutor } from './queue-executor.js';
import { packJob } from './queue-messages.js';
import type { RunNotice } from './queue-messages.js';
import { serveQueue } from './queue-worker.js';

if (!hasRedis) process.stderr.write('redis-server is not installed: the tests of the queue are skipped.\n');

const queue = 'mistletoe-0123456789abcdef';
const notice: RunNotice = {
  schema: 'mistletoe.run/1',
  command: 'audit',
  version: readVersion(),
  models: [{ name: 'tiny', sha256: '0'.repeat(64) }],
  device: { kind: 'cpu', dtype: 'float32', name: '' },
  threads: 1,
};

interface Input {
  readonly number: number;
}
const unitOf = (number: number): Unit<Input> => ({
  key: `unit-${number}`,
  input: { number },
});

describe.skipIf(!hasRedis)('a queue', () => {
  let redis: TestRedis;
  const closing: (() => Promise<unknown>)[] = [];
  let notices: string[] = [];
  beforeEach(async () => {
    redis = await startRedis();
    notices = [];
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
    await redis.stop();
  });

  async function connect(): Promise<QueueConnection> {
    const connection = await QueueConnection.open(
      parseQueueUrl(redis.url),
      (message) => void notices.push(message),
    );
    closing.push(() => {
      connection.close();
      return Promise.resolve();
    });
    return connection;
  }

  async function submit(given: RunNotice = notice): Promise<QueueExecutor<Input>> {
    const onNotice = (message: string): void => void notices.push(message);
    const executor = new QueueExecutor<Input>(await connect(), { queue, notice: given, onNotice });
    closing.push(() => executor.close());
    return executor;
  }

  /** A worker that doubles numbers; `compute` may throw or wait. */
  async function serve(
    name: string,
    compute: (number: number) => Promise<void> | void = () => undefined,
    capacity = 8,
  ): Promise<{ readonly computed: number[]; readonly stop: () => Promise<void> }> {
    const computed: number[] = [];
    const abort = new AbortController();
    const executor: UnitExecutor<Input> = {
      capacity,
      async run({ key, input: { number } }, hooks) {
        computed.push(number);
        await compute(number);
        hooks.onPart({ key, data: 2 * number, steps: [], timing: null }, { name, pid: null });
      },
      close: () => Promise.resolve(),
    };
    const serving = serveQueue<Input>(await connect(), {
      name,
      // A busy machine may not renew a short lease in time, and the unit would be computed twice.
      leaseMs: 600_000,
      signal: abort.signal,
      onNotice: (message) => void notices.push(message),
      parse: (input) => input as Input,
      openExecutor: () => Promise.resolve(executor),
    });
    const stop = async (): Promise<void> => {
      abort.abort();
      await serving;
    };
    closing.push(stop);
    return { computed, stop };
  }

  async function run(executor: QueueExecutor<Input>, number: number): Promise<unknown> {
    const parts: UnitPart[] = [];
    await executor.run(unitOf(number), { onPart: (part) => void parts.push(part) });
    return parts.map(({ data }) => data);
  }

  it('runs units on all workers and leaves nothing in Redis', async () => {
    const executor = await submit();
    // Neither finishes a unit before both have one.
    const both = [new Set<number>(), new Set<number>()];
    let release: () => void = () => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const meet = (own: Set<number>) => (number: number) => {
      own.add(number);
      if (both.every(({ size }) => size > 0)) release();
      return released;
    };
    const workers = [await serve('one', meet(both[0]!)), await serve('two', meet(both[1]!))];
    const numbers = Array.from({ length: 100 }, (_, index) => index);
    const outputs = await Promise.all(numbers.map((number) => run(executor, number)));
    expect(outputs).toEqual(numbers.map((number) => [2 * number]));
    expect(workers.flatMap(({ computed }) => computed).sort((a, b) => a - b)).toEqual(numbers);
    for (const { stop } of workers) await stop();
    await executor.finish();
    expect(await (await connect()).client.keys('*mistletoe*')).toEqual([]);
  });

  it('retries a failed unit, and reports it after the third time', async () => {
    const executor = await submit();
    let failures = 0;
    const { computed } = await serve('one', (number) => {
      if (number === 1 || (number === 2 && (failures += 1) < 3))
        throw new UnitFailed('the worker ended with SIGKILL');
    });
    const poisoned = expect(run(executor, 1)).rejects.toEqual(
      new UnitFailed('the worker ended with SIGKILL'),
    );
    await expect(run(executor, 2)).resolves.toEqual([4]);
    await poisoned;
    expect(computed.filter((number) => number === 1)).toHaveLength(3);
  });

  it('refuses a run of another version by name', async () => {
    const executor = await submit({ ...notice, version: '99.0.0' });
    const { computed } = await serve('old');
    const running = run(executor, 1).catch(() => undefined);
    await expect
      .poll(() => notices, { timeout: 600_000 })
      .toContainEqual(
        `The worker old does not serve this run: it needs Mistletoe 99.0.0, and this worker is ${readVersion()}`,
      );
    expect(computed).toEqual([]);
    await executor.close();
    await running;
  });

  it('leaves a run to others if none of its processes can open it, and reports why', async () => {
    const executor = await submit();
    const abort = new AbortController();
    let capacity = 1;
    const unfit: UnitExecutor<Input> = {
      get capacity() {
        return capacity;
      },
      run() {
        capacity = 0;
        return Promise.reject(new Error('no memory'));
      },
      close: () => Promise.resolve(),
    };
    const serving = serveQueue<Input>(await connect(), {
      ...{ name: 'small', signal: abort.signal, onNotice: () => undefined },
      parse: (input) => input as Input,
      openExecutor: () => Promise.resolve(unfit),
    });
    closing.push(() => {
      abort.abort();
      return serving;
    });
    const running = run(executor, 1);
    await expect
      .poll(() => notices, { timeout: 600_000 })
      .toContainEqual('The worker small does not serve this run: no memory');
    await serve('large');
    await expect(running).resolves.toEqual([2]);
  });

  it('keeps outputs for a submitter that was killed, and does not compute them again', async () => {
    const first = await submit();
    const { computed } = await serve('one');
    let finished: () => void = () => undefined;
    const done = new Promise<void>((resolve) => (finished = resolve));
    // The submitter dies while it records.
    const running = first.run(unitOf(5), {
      onPart() {
        finished();
        throw new Error('killed');
      },
    });
    await expect(running).rejects.toThrow('killed');
    await done;
    await first.close();
    const [again, other] = [await submit(), unitOf(6)];
    await expect(run(again, 5)).resolves.toEqual([10]);
    await again.run(other, { onPart: () => undefined });
    expect(computed).toEqual([5, 6]);
  });

  it('survives a restart of Redis that forgot everything', async () => {
    const executor = await submit();
    let release: () => void = () => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    let reached: () => void = () => undefined;
    const started = new Promise<void>((resolve) => (reached = resolve));
    const { computed } = await serve('one', async (number) => {
      reached();
      if (number < 4) await released;
    });
    const outputs = Promise.all([1, 2, 3, 4, 5, 6].map((number) => run(executor, number)));
    await started;
    await redis.stop();
    release();
    redis = await startRedis(redis.port);
    expect(await outputs).toEqual([[2], [4], [6], [8], [10], [12]]);
    // What the worker had computed when Redis came back was not computed twice.
    expect(computed.filter((number) => number === 1)).toHaveLength(1);
    expect(notices.some((message) => message.includes('cannot be reached'))).toBe(true);
  });

  it('takes forged outputs for failures, and forged units for nothing', async () => {
    const executor = await submit();
    const connection = await connect();
    const { bull, client } = connection;
    const forger = new bull.Worker(queue, () => Promise.resolve({ path: '/etc/passwd' }), {
      connection: client,
      autorun: true,
    });
    forger.on('error', () => undefined);
    await expect(run(executor, 1)).rejects.toThrow(/a worker sent an output that cannot be read/);
    await forger.close();
    const forged = new bull.Queue(queue, { connection: client });
    await forged.add('x', { ...packJob('x', readVersion(), { number: 7 }) }, { jobId: 'unit-forged' });
    await forged.add('y', { run: 'rm -rf /' }, { jobId: 'unit-hostile' });
    const { computed } = await serve('one');
    await expect(run(executor, 2)).resolves.toEqual([4]);
    expect(computed).toEqual([2]);
    await forged.close();
  });

  it('ends at once if the server is not there, and shows no password', async () => {
    const address = parseQueueUrl('redis://:very-secret@127.0.0.1:1');
    await expect(QueueConnection.open(address, () => undefined)).rejects.toMatchObject({
      code: 'network',
      message: expect.stringMatching(
        /^The queue at redis:\/\/127\.0\.0\.1:1 cannot be reached: (?!.*secret)/,
      ) as string,
    });
  });
});
