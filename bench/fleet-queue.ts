/** Units that do nothing through a redis-server of this machine: how many a second, and how long one takes. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { sum } from '../src/core/vector.js';
import { readVersion } from '../src/runs/identity.js';
import { type UnitExecutor, driveUnits } from '../src/runs/unit.js';
import { parseQueueUrl, QueueConnection } from '../src/runs/queue/queue-connection.js';
import { QueueExecutor } from '../src/runs/queue/queue-executor.js';
import { serveQueue } from '../src/runs/queue/queue-worker.js';
import { hasRedis, startRedis } from '../test/support/guard/redis-server.js';
import { median, printNote, printTable } from './stopwatch.js';

const latencyUnits = 100;
const warmupUnits = 500;
const program = fileURLToPath(import.meta.url);
if (process.argv[1] === program) await serveNothing(process.argv[2]!, process.argv[3]!);

/** A worker in a process of its own. */
async function serveNothing(url: string, name: string): Promise<void> {
  const executor: UnitExecutor = {
    capacity: 64,
    run({ key }, hooks) {
      hooks.onPart({ key, data: null, steps: [], timing: null }, { name, pid: null });
      return Promise.resolve();
    },
    close: () => Promise.resolve(),
  };
  const abort = new AbortController();
  process.on('message', () => process.send!(process.cpuUsage()));
  process.on('disconnect', () => {
    abort.abort();
  });
  const connection = await QueueConnection.open(parseQueueUrl(url), console.error);
  process.send!('ready');
  await serveQueue(connection, {
    name,
    signal: abort.signal,
    parse: (input) => input,
    openExecutor: () => Promise.resolve(executor),
    onNotice: () => undefined,
  });
  connection.close();
}

export async function measureQueue(units: number): Promise<void> {
  if (!hasRedis) {
    printNote('redis-server is not installed: the queue was not measured.');
    return;
  }
  const rows = [['workers', 'units/s', 'median ms', '95 % ms', 'Redis ms', 'submitter ms', 'workers ms']];
  for (const workers of [1, 2]) rows.push([String(workers), ...(await measureWith(workers, units))]);
  printTable(rows, `${units} no-op units through one Redis; CPU time for each unit`);
}

async function measureWith(count: number, units: number): Promise<string[]> {
  const redis = await startRedis();
  const workers: ChildProcess[] = [];
  const connection = await QueueConnection.open(parseQueueUrl(redis.url), console.error);
  const executor = new QueueExecutor(connection, {
    queue: 'mistletoe-00000000000bec4e',
    notice: {
      schema: 'mistletoe.run/1',
      command: 'audit',
      version: readVersion(),
      models: [{ name: 'none', sha256: '0'.repeat(64) }],
      device: { kind: 'cpu', dtype: 'float32', name: '' },
      threads: 1,
    },
    onNotice: console.error,
  });
  let [next, end] = [0, 0];
  const run = async (more: number): Promise<number> => {
    end += more;
    const startMs = performance.now();
    await driveUnits({
      schedule: { next: () => (next < end ? { key: `unit-${next}`, input: { number: next++ } } : undefined) },
      executor,
      hooksOf: () => ({ onPart: () => undefined }),
      onFailure: (unit, failure) => {
        throw new Error(`${unit.key} failed: ${failure.message}`);
      },
    });
    return performance.now() - startMs;
  };
  try {
    for (let index = 0; index < count; index++) {
      const child = fork(program, [redis.url, `worker-${index + 1}`]);
      workers.push(child);
      await once(child, 'message');
    }
    await run(warmupUnits);
    const latencies: number[] = [];
    for (let unit = 0; unit < latencyUnits; unit++) latencies.push(await run(1));
    const before = await countCpu(connection, workers);
    const wallMs = await run(units);
    const after = await countCpu(connection, workers);
    const slowMs = latencies.toSorted((left, right) => left - right)[Math.floor(0.95 * latencyUnits)]!;
    return [
      ((1000 * units) / wallMs).toFixed(0),
      median(latencies).toFixed(1),
      slowMs.toFixed(1),
      ...after.map((ms, place) => ((ms - before[place]!) / units).toFixed(2)),
    ];
  } finally {
    await executor.close();
    connection.close();
    for (const child of workers) {
      const ended = once(child, 'exit');
      child.disconnect();
      await ended;
    }
    await redis.stop();
  }
}

/** Milliseconds of Redis, of the submitter, and of all workers. */
async function countCpu({ client }: QueueConnection, workers: readonly ChildProcess[]): Promise<number[]> {
  const usages: NodeJS.CpuUsage[] = [];
  for (const child of workers) {
    child.send('cpu');
    const [usage] = (await once(child, 'message')) as [NodeJS.CpuUsage];
    usages.push(usage);
  }
  const info = await client.info('cpu');
  const seconds = [...info.matchAll(/^used_cpu_(?:sys|user):([\d.]+)/gm)].map(([, value]) => Number(value));
  const milliseconds = ({ user, system }: NodeJS.CpuUsage): number => (user + system) / 1000;
  return [1000 * sum(seconds), milliseconds(process.cpuUsage()), sum(usages.map(milliseconds))];
}
