/**
 * Attempts of one kind in a process of their own, so that what hangs, aborts or eats memory is a fault with a seed and not
 * the end of the suite: the process is ended, and another one goes on behind that seed.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Fault } from './kind.js';
import { watchMemory } from './process-memory.js';

export interface KindRun {
  readonly files: number;
  readonly accepted: number;
  readonly refused: number;
  readonly slowestMs: number;
  readonly slowestSeed: number;
  /** Of the process and those that it started. */
  readonly peakBytes: number;
  readonly faults: readonly Fault[];
}

/** Longer than any file may take, on a machine that is busy with other things. */
const patienceMs = 30_000;
/** A kind that crashes at every file need not show it a thousand times. */
const mostFaults = 10;

type Counts = Omit<KindRun, 'peakBytes' | 'faults'>;

export async function runKind(worker: string, kind: string, first: number, count: number): Promise<KindRun> {
  const last = first + count;
  const counts = { files: 0, accepted: 0, refused: 0, slowestMs: 0, slowestSeed: first };
  const faults: Fault[] = [];
  let peakBytes = 0;
  for (let seed = first; seed < last && faults.length < mostFaults;) {
    const run = await runWorker(worker, kind, seed, last - seed);
    faults.push(...run.faults);
    peakBytes = Math.max(peakBytes, run.peakBytes);
    counts.files += run.counts?.files ?? run.lastSeed - seed + 1;
    counts.accepted += run.counts?.accepted ?? 0;
    counts.refused += run.counts?.refused ?? 0;
    if ((run.counts?.slowestMs ?? 0) > counts.slowestMs)
      Object.assign(counts, { slowestMs: run.counts?.slowestMs, slowestSeed: run.counts?.slowestSeed });
    if (run.counts !== undefined) break;
    seed = run.lastSeed + 1;
  }
  return { ...counts, peakBytes, faults };
}

interface WorkerRun {
  /** Absent where the process did not get to its end. */
  readonly counts: Counts | undefined;
  readonly faults: readonly Fault[];
  readonly lastSeed: number;
  readonly peakBytes: number;
}

async function runWorker(worker: string, kind: string, first: number, count: number): Promise<WorkerRun> {
  const folder = mkdtempSync(join(tmpdir(), 'mistletoe-fuzz-'));
  const child = spawn(
    process.execPath,
    ['--max-old-space-size=400', worker, kind, String(first), String(count), folder],
    {
      env: { ...process.env, MISTLETOE_CACHE: join(folder, 'cache') },
    },
  );
  const memory = watchMemory(child.pid!);
  const seedNow = (): number => readSeed(folder) ?? first;
  let out = '';
  let err = '';
  let why: string | undefined;
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (err = (err + chunk.toString()).slice(-4000)));
  let seen = { seed: -1, sinceMs: performance.now() };
  const watch = setInterval(() => {
    const seed = seedNow();
    if (seed !== seen.seed) seen = { seed, sinceMs: performance.now() };
    else if (performance.now() - seen.sinceMs > patienceMs) {
      why = `it did not end within ${patienceMs / 1000} s`;
      child.kill('SIGKILL');
    }
  }, 500);
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    const lines = out.split('\n').filter((line) => line !== '');
    const parsed = lines.map((line) => JSON.parse(line) as Fault | { readonly counts: Counts });
    const faults = parsed.filter((line) => 'seed' in line);
    const counts = parsed.find((line) => 'counts' in line)?.counts;
    const lastSeed = seedNow();
    if (counts === undefined)
      faults.push({ seed: lastSeed, what: why ?? `the process ended with ${signal ?? code ?? ''}: ${err}` });
    return { counts, faults, lastSeed, peakBytes: memory.peakBytes() };
  } finally {
    clearInterval(watch);
    memory.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function readSeed(folder: string): number | undefined {
  try {
    const text = readFileSync(join(folder, 'seed'), 'latin1').trim();
    return text === '' ? undefined : Number(text);
  } catch {
    return undefined; // not yet written
  }
}
