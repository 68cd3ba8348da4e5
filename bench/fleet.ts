/**
 * Several workers: overhead of a unit through pool and queue, a simulation of the research table (5 drafters, 3 sets of 80
 * prompts, 2 targets, 5 seeds: 12,000 searches) on 1 to 512 GPUs.
 * Options: --timings FILE  timings.jsonl of a run, for unit times; --queue UNITS  also sends no-op units through a local
 * Redis
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { isSearched } from '../src/audit/result.js';
import { timingSchema } from '../src/audit/arms/phase-clock.js';
import { durationText, percentText } from '../src/core/number-text.js';
import { sum } from '../src/core/vector.js';
import { measureQueue } from './fleet-queue.js';
import { simulate } from './fleet-simulation.js';
import { printNote, printTable } from './stopwatch.js';

const { values: options } = parseArgs({
  options: { timings: { type: 'string' }, queue: { type: 'string' } },
});

/**
 * Unless --timings has others: of the bundled pair on one H200 that 15 processes share, which audited 120 pairs of drafter
 * and prompt in 5.8 minutes (docs/notebook/2026-11-17-measurements.md), 43.5 s for each pair. How that divides into controls
 * and two searches, and the spread, are assumptions.
 */
const workersPerGpu = 15;
const measuredRun = { pairs: 120, minutes: 5.8 };
const assumed = { controlsMs: [6500, 8700, 10_900], searchesMs: [13_000, 17_400, 21_800] };

/** Times of units, by kind: the controls of a prompt are one unit. */
function readTimes(path: string): typeof assumed {
  const lines = readFileSync(path, 'utf8').split('\n');
  const controls = new Map<string, number>();
  const searchesMs: number[] = [];
  for (const line of lines.filter((each) => each.includes('"phases"'))) {
    const { arm, drafter, promptId, phases } = timingSchema.parse(JSON.parse(line));
    const key = `${drafter}/${promptId}`;
    if (isSearched(arm)) searchesMs.push(phases.totalMs);
    else controls.set(key, (controls.get(key) ?? 0) + phases.totalMs);
  }
  return { controlsMs: [...controls.values()], searchesMs };
}

const times = options.timings === undefined ? assumed : readTimes(options.timings);
/** Serial costs of a unit: CPU time of Redis and of the submitter, and of writing it to the disk (docs/fleet.md). */
const costs = { redisMs: 0.1, submitterMs: 3, loadMs: 20_000 };
const meanText = (values: readonly number[]): string => durationText(sum(values) / values.length);
const source = options.timings === undefined ? ' (assumed)' : '';
printNote(
  `Unit times: controls ${meanText(times.controlsMs)}, searches ${meanText(times.searchesMs)} on average${source}; ${workersPerGpu} workers per GPU, 0.05 deaths per worker and hour, 20 s to load models, lease 30 s.`,
);
const rows = [
  ['GPUs', 'wall time', 'ideal', 'efficiency', 'tail', 'Redis busy', 'submitter busy', 'deaths', 'limit'],
];
for (const gpus of [1, 8, 64, 512]) {
  const run = { pairs: 5 * 240 * 2, searchesPerPair: 5, ...times };
  const failures = { failuresPerWorkerHour: 0.05, leaseMs: 30_000 };
  const result = simulate(run, { workers: gpus * workersPerGpu, ...failures, ...costs });
  rows.push([
    String(gpus),
    durationText(result.wallMs),
    durationText(result.idealMs),
    percentText(result.idealMs / result.wallMs),
    durationText(result.tailMs),
    percentText(result.redisBusy),
    percentText(result.submitterBusy),
    String(result.deaths),
    result.limit,
  ]);
}
printTable(rows, 'The research table: 12,000 searches');
if (options.timings === undefined) {
  const run = { pairs: measuredRun.pairs, searchesPerPair: 2, ...times };
  const { wallMs } = simulate(run, {
    workers: workersPerGpu,
    failuresPerWorkerHour: 0,
    leaseMs: 0,
    ...costs,
  });
  printNote(
    `The run behind these times took ${measuredRun.minutes} min; simulated: ${durationText(wallMs)}.`,
  );
}
if (options.queue !== undefined) await measureQueue(Number(options.queue));
