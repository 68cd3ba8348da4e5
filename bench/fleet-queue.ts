/** Units that do nothing through a redis-server of this machine: how many a second, and how long one takes. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { readVersion } from '../src/runs/identity.js';
import { type Unit, driveUnits } from '../src/runs/unit.js';
import { parseQueueUrl, QueueConnection } from '../src/runs/queue/queue-connection.js';
import { QueueExecutor } from '../src/runs/queue/queue-executor.js';
import { hasRedis, startRedis } from '../test/support/guard/redis-server.js';
import { median, printNote, printTable } from './stopwatch.js';

const unitOf = (number: number): Unit => ({ key: `unit-${number}`, input: { number } });
const latencyUnits = 100;
const warmupUnits = 500;

interface QueueRow {
  readonly unitsPerSecond: number;
  readonly latencyMs: number;
  readonly slowMs: number;
  /** CPU time of a unit. */
  readonly redisMs: number;
  readonly submitterMs: number;
  readonly workersMs: number;
}

export async function measureQueue(units: number): Promise<void> {
  if (!hasRedis) {
    printNote('redis-server is not installed: the queue was not measured.');
    return;
  }
  const rows: string[][] = [];
  for (const workers of [1, 2]) {
    const row = await measureWith(workers, units);
    rows.push([
      ...[String(workers), row.unitsPerSecond.toFixed(0), row.latencyMs.toFixed(1), row.slowMs.toFixed(1)],
      ...[row.redisMs, row.submitterMs, row.workersMs].map((ms) => ms.toFixed(2)),
    ]);
  }
  const columns = ['workers', 'units/s', 'median ms', '95 % ms', 'Redis ms', 'submitter ms', 'workers ms'];
  printTable([columns, ...rows], `${units} no-op units through one Redis; CPU time for each unit`);
}

async function measureWith(count: number, units: number): Promise<QueueRow> {
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
    },
    onNotice: console.error,
  });
  let [next, end] = [0, 0];
  const run = async (more: number): Promise<number> => {
    end += more;
    const startMs = performance.now();
    await driveUnits({
      schedule: { next: () => (next < end ? unitOf(next++) : undefined) },
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
      const program = fileURLToPath(new URL('./no-op-worker.js', import.meta.url));
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
    const sorted = latencies.sort((left, right) => left - right);
    return {
      unitsPerSecond: (1000 * units) / wallMs,
      latencyMs: median(latencies),
      slowMs: sorted[Math.floor(0.95 * sorted.length)]!,
      redisMs: (after.redisMs - before.redisMs) / units,
      submitterMs: (after.submitterMs - before.submitterMs) / units,
      workersMs: (after.workersMs - before.workersMs) / units,
    };
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

async function countCpu(
  { client }: QueueConnection,
  workers: readonly ChildProcess[],
): Promise<Pick<QueueRow, 'redisMs' | 'submitterMs' | 'workersMs'>> {
  const sum = ({ user, system }: NodeJS.CpuUsage): number => (user + system) / 1000;
  let workersMs = 0;
  for (const child of workers) {
    child.send('cpu');
    const [usage] = (await once(child, 'message')) as [NodeJS.CpuUsage];
    workersMs += sum(usage);
  }
  const info = await client.info('cpu');
  const seconds = [...info.matchAll(/^used_cpu_(?:sys|user):([\d.]+)/gm)].map(([, value]) => Number(value));
  const redisMs = 1000 * seconds.reduce((total, value) => total + value, 0);
  return { redisMs, submitterMs: sum(process.cpuUsage()), workersMs };
}
