/**
 * Attempts in a process of their own, so that a hang, an abort or a lack of memory is a fault with a seed and not the end of
 * the suite: the process is killed, and another one continues after that seed.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Fault } from './kind.js';
import { maxCpuMs } from './kind.js';
import { watchProcessTree } from './process-tree.js';

/** The seeds of one kind. */
export interface FuzzPlan {
  readonly kind: string;
  readonly first: number;
  readonly count: number;
}

export interface KindRun {
  readonly files: number;
  readonly accepted: number;
  readonly refused: number;
  readonly slowestCpuMs: number;
  readonly slowestSeed: number;
  /** Of the processes that tried this kind, with those that they started. */
  readonly peakBytes: number;
  readonly faults: readonly Fault[];
}

/** What the process itself would report as too slow, it reports late where it is in a single long call. */
const killCpuMs = 3 * maxCpuMs;
/** A hang guard, for a file that waits without using the CPU. */
const hangGuardMs = 600_000;
/** A kind that crashes at every file need not show it a thousand times. */
const maxFaults = 5;

export type KindCounts = Omit<KindRun, 'peakBytes' | 'faults'>;
/** A line that the process writes. */
export type WorkerLine = { readonly kind: string } & (
  | { readonly fault: Fault }
  | { readonly counts: KindCounts }
);

/** Tries the kinds one after the other, in one process as long as it lives. */
export async function runKinds(
  worker: string,
  plans: readonly FuzzPlan[],
): Promise<ReadonlyMap<string, KindRun>> {
  const none: KindCounts = { files: 0, accepted: 0, refused: 0, slowestCpuMs: 0, slowestSeed: 0 };
  const tallies = new Map(
    plans.map(({ kind }) => [kind, { counts: none, peakBytes: 0, faults: new Array<Fault>() }]),
  );
  for (let left = plans; left.length > 0;) {
    const { lines, peakBytes, died } = await runWorker(worker, left);
    for (const { kind } of left) {
      const tally = tallies.get(kind)!;
      tally.peakBytes = Math.max(tally.peakBytes, peakBytes);
    }
    for (const line of lines) {
      const tally = tallies.get(line.kind)!;
      if ('fault' in line) tally.faults.push(line.fault);
      else tally.counts = { ...line.counts, files: tally.counts.files + line.counts.files };
    }
    if (died === undefined) break;
    const at = left.findIndex(({ kind }) => kind === died.kind);
    const { kind, first, count } = left[at]!;
    const tally = tallies.get(kind)!;
    const tried = died.seed + 1 - first;
    tally.counts = { ...tally.counts, files: tally.counts.files + tried };
    tally.faults.push({ seed: died.seed, what: died.why });
    const rest = { kind, first: died.seed + 1, count: count - tried };
    const goesOn = rest.count > 0 && tally.faults.length < maxFaults;
    left = [...(goesOn ? [rest] : []), ...left.slice(at + 1)];
  }
  return new Map(
    [...tallies].map(([kind, { counts, peakBytes, faults }]) => [kind, { ...counts, peakBytes, faults }]),
  );
}

interface WorkerRun {
  readonly lines: readonly WorkerLine[];
  readonly peakBytes: number;
  /** Where and why it did not get to its end. */
  readonly died: { readonly kind: string; readonly seed: number; readonly why: string } | undefined;
}

async function runWorker(worker: string, plans: readonly FuzzPlan[]): Promise<WorkerRun> {
  const folder = mkdtempSync(join(tmpdir(), 'mistletoe-fuzz-'));
  const words = plans.map(({ kind, first, count }) => `${kind}:${first}:${count}`);
  const child = spawn(process.execPath, ['--max-old-space-size=400', worker, folder, ...words], {
    env: { ...process.env, MISTLETOE_CACHE: join(folder, 'cache') },
  });
  let [out, err] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (err = (err + chunk.toString()).slice(-4000)));
  let why: string | undefined;
  let seen = { place: '', cpuMs: 0, hangGuard: setTimeout(() => undefined) };
  const tree = watchProcessTree(child.pid!, ({ cpuMs, kill }) => {
    const place = readPlace(folder);
    if (place !== seen.place) {
      clearTimeout(seen.hangGuard);
      const hangGuard = setTimeout(() => {
        why = 'it waited without end';
        kill();
      }, hangGuardMs);
      seen = { place, cpuMs: cpuMs(), hangGuard };
    } else if (cpuMs() - seen.cpuMs > killCpuMs) {
      why = `it did not end within ${killCpuMs / 1000} s of CPU time`;
      kill();
    }
  });
  try {
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
    const lines = out.split('\n').filter((line) => line !== '');
    const parsed = lines.map((line) => JSON.parse(line) as WorkerLine);
    const [kind = plans[0]!.kind, seed = plans[0]!.first] = readPlace(folder).split(' ');
    why ??= code === 0 ? undefined : `the process ended with ${signal ?? code ?? ''}: ${err}`;
    const died = why === undefined ? undefined : { kind, seed: Number(seed), why };
    return { lines: parsed, peakBytes: tree.peakBytes(), died };
  } finally {
    clearTimeout(seen.hangGuard);
    tree.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The kind and the seed of the file that is being tried; empty before the first. */
function readPlace(folder: string): string {
  try {
    return readFileSync(join(folder, 'place'), 'latin1').trim();
  } catch {
    return '';
  }
}
