/**
 * What the guard costs on loopback: latency added to a request and to a chunk of a stream, requests a second, processor
 * time, a thousand streams at once, and memory over an hour's worth of requests. Engine, guard and clients are processes of
 * their own, and engine and clients write and read bare sockets, so that what is measured is the guard. With two cores they
 * still share, and on a machine that others use, too, processor time alone says much.
 */
import type { ChildProcess } from 'node:child_process';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readConfiguration } from '../src/guard/config-file.js';
import { startGuard } from '../src/guard/guard.js';
import { closeProxy, createProxy } from '../src/guard/proxy.js';
import { Upstream } from '../src/guard/upstream.js';
import type { Sample } from './guard-load.js';
import { drive, openStreams, startSocketEngine } from './guard-load.js';
import { printTable } from './stopwatch.js';

const [role] = process.argv.slice(2);
const scale = Number(process.env.SCALE ?? 1);

interface Ready {
  readonly port: number;
}

interface Usage {
  readonly rss: number;
  readonly heap: number;
  /** Of all threads, since the start. */
  readonly cpuMs: number;
}

async function start(name: string, ...words: string[]): Promise<{ child: ChildProcess; port: number }> {
  const child = fork(fileURLToPath(import.meta.url), [name, ...words], { execArgv: ['--expose-gc'] });
  const [{ port }] = (await once(child, 'message')) as [Ready];
  return { child, port };
}

async function runEngine(): Promise<void> {
  process.send!({ port: await startSocketEngine() });
}

async function runGuard(): Promise<void> {
  const [, upstream, folder] = process.argv.slice(2);
  const text = JSON.stringify({ upstream, port: 0, records: { folder }, tenant: { from: 'key' } });
  const guard = await startGuard(readConfiguration({ file: { name: 'bench', text } }), {
    onNotice: (message) => {
      console.error(message);
    },
  });
  answerUsage(() => guard.close());
  process.send!({ port: Number(new URL(guard.url).port) });
}

/** The guard's proxy with nothing behind its desk: what passing bytes on takes by itself. */
async function runProxy(): Promise<void> {
  const upstream = new Upstream(process.argv[3]!, { connectMs: 5000, firstByteMs: 600_000 });
  const watcher = { onStart: ignore, onBytes: ignore, onEnd: ignore };
  const server = createProxy(
    { answerOwn: () => false, wantsBody: () => true, decide: () => ({ kind: 'pass', upstream, watcher }) },
    {
      timeouts: { idleMs: 300_000, clientMs: 300_000, requestMs: 300_000 },
      limits: { requestBytes: 64e6, readBytes: 4e6, heldBytes: 256e6, headerBytes: 32e3 },
    },
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  answerUsage(() => closeProxy(server, 1000));
  process.send!({ port: (server.address() as AddressInfo).port });
}

function answerUsage(close: () => Promise<void>): void {
  process.on('message', (asked) => {
    if (asked === 'end') void close().then(() => process.exit(0));
    else {
      (globalThis as { gc?: () => void }).gc?.();
      const { rss, heapUsed } = process.memoryUsage();
      const { user, system } = process.cpuUsage();
      process.send!({ rss, heap: heapUsed, cpuMs: (user + system) / 1000 });
    }
  });
}

async function askUsage(child: ChildProcess): Promise<Usage> {
  child.send('usage');
  const [usage] = (await once(child, 'message')) as [Usage];
  return usage;
}

const quantile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
const microseconds = (ms: number): string => `${(ms * 1000).toFixed(0)} us`;
const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(1);

function row(name: string, direct: Sample, through: Sample, share: number): string[] {
  const [one, other] = [quantile(direct.latencies, share), quantile(through.latencies, share)];
  return [name, microseconds(one), microseconds(other), microseconds(other - one)];
}

async function measure(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'guard-cost-'));
  const engine = await start('engine');
  const guard = await start('guard', `http://127.0.0.1:${engine.port}`, folder);
  const proxy = await start('proxy', `http://127.0.0.1:${engine.port}`);
  const [direct, through] = [engine.port, guard.port];
  try {
    for (const port of [direct, through, proxy.port])
      await drive(port, { connections: 16, requests: 4000 * scale });

    console.log('\nAdded latency of small requests, by how many are sent a second (8 connections)\n');
    const latency = [['', 'direct', 'guard', 'added']];
    for (const rate of [100, 500, 1000]) {
      const load = { connections: 8, requests: rate * 8 * scale, rate };
      const [one, other] = [await drive(direct, load), await drive(through, load)];
      for (const share of [0.5, 0.99]) latency.push(row(`${rate}/s, p${share * 100}`, one, other, share));
    }
    printTable(latency);

    console.log('\nSmall requests a second, as fast as they are answered\n');
    const speed = [['connections', 'direct', 'guard']];
    for (const connections of [16, 64, 256]) {
      const load = { connections, requests: 30_000 * scale };
      const rates = [await drive(direct, load), await drive(through, load)];
      speed.push([String(connections), ...rates.map(({ perSecond }) => perSecond.toFixed(0))]);
    }
    printTable(speed);

    console.log('\nProcessor time of a small request, 64 connections, by turns: the middle of five rounds\n');
    const rounds: Record<'guard' | 'proxy', number[]> = { guard: [], proxy: [] };
    for (let round = 0; round < 5; round++) {
      for (const [name, { child, port }] of Object.entries({ guard, proxy })) {
        const requests = 15_000 * scale;
        const before = await askUsage(child);
        await drive(port, { connections: 64, requests });
        const after = await askUsage(child);
        rounds[name as keyof typeof rounds].push((after.cpuMs - before.cpuMs) / requests);
      }
    }
    printTable([
      ['the guard', 'its proxy alone'],
      [rounds.guard, rounds.proxy].map((times) =>
        microseconds(
          quantile(
            times.toSorted((a, b) => a - b),
            0.5,
          ),
        ),
      ),
    ]);

    console.log('\nStreams at once, 10 events a second each for 10 seconds: delay of an event\n');
    const streams = [['streams', '', 'whole', 'p50', 'p99', 'added p50', 'added p99']];
    for (const count of [100, 1000]) {
      const samples = [await openStreams(direct, count), await openStreams(through, count)] as const;
      for (const [index, { latencies, whole }] of samples.entries()) {
        const [middle, high] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
        const added = [0.5, 0.99].map((share) =>
          microseconds(quantile(latencies, share) - quantile(samples[0].latencies, share)),
        );
        const cells = [
          index === 0 ? 'direct' : 'guard',
          String(whole),
          microseconds(middle),
          microseconds(high),
        ];
        streams.push([String(count), ...cells, ...(index === 0 ? ['', ''] : added)]);
      }
    }
    printTable(streams);

    console.log('\nMemory of the guard over an hour of 20 requests a second, after a collection (MB)\n');
    const memory = [['requests', 'heap', 'resident']];
    const parts = 6;
    for (let part = 0; part <= parts; part++) {
      if (part > 0) await drive(through, { connections: 64, requests: (72_000 / parts) * scale });
      const { heap, rss } = await askUsage(guard.child);
      memory.push([String((part * 72_000 * scale) / parts), megabytes(heap), megabytes(rss)]);
    }
    printTable(memory);
  } finally {
    for (const { child } of [guard, proxy]) {
      child.send('end');
      await once(child, 'exit');
    }
    engine.child.kill();
    rmSync(folder, { recursive: true });
  }
}

function ignore(): void {
  // Only what passing on takes is wanted.
}

if (role === 'engine') await runEngine();
else if (role === 'guard') await runGuard();
else if (role === 'proxy') await runProxy();
else await measure();
