/**
 * Several workers: overhead of a unit through pool and queue, a simulation of the research table (5 drafters, 3 sets of 80
 * prompts, 2 targets, 5 seeds: 12,000 searches) on 1 to 512 GPUs.
 * Options: --timings FILE  timings.jsonl of a run, for unit times; --queue UNITS  also sends no-op units through a local
 * Redis
 */
import { readFileSync } from 'node:fs';
import { isSearched } from '../src/audit/result.js';
import { type ArmTiming, timingSchema } from '../src/audit/arms/phase-clock.js';
import { durationText, percentText } from '../src/core/number-text.js';
import { measureQueue } from './fleet-queue.js';
import { simulate } from './fleet-simulation.js';
import { printNote, printTable } from './stopwatch.js';

const valueOf = (option: string): string | undefined => {
  const place = process.argv.indexOf(option);
  return place < 0 ? undefined : process.argv[place + 1];
};
const timingsFile = valueOf('--timings');

/**
 * Unless --timings has others: of the bundled pair on one H200 that 15 processes share, which audited 120 pairs of drafter
 * and prompt in 5.8 minutes (docs/notebook/2026-11-17-measurements.md), 43.5 s for each pair. How that divides into controls
 * and two searches, and the spread, are assumptions.
 */
const workersPerGpu = 15;
const measuredRun = { pairs: 120, minutes: 5.8 };
const assumed = { controlsMs: [6500, 8700, 10_900], searchesMs: [13_000, 17_400, 21_800] };

/** Times of units, by kind: the controls of a prompt are one unit. */
function readTimes(path: string): { readonly controlsMs: number[]; readonly searchesMs: number[] } {
  const rows = readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line.includes('"phases"'))
    .map((line) => timingSchema.parse(JSON.parse(line)));
  const ms = ({ phases }: ArmTiming): number => phases.totalMs;
  const controls = new Map<string, number>();
  for (const row of rows.filter(({ arm }) => !isSearched(arm))) {
    const key = `${row.drafter}/${row.promptId}`;
    controls.set(key, (controls.get(key) ?? 0) + ms(row));
  }
  return {
    controlsMs: [...controls.values()],
    searchesMs: rows.filter(({ arm }) => isSearched(arm)).map(ms),
  };
}

const times = timingsFile === undefined ? assumed : readTimes(timingsFile);
/** Serial costs of a unit: CPU time of Redis and of the submitter, and of writing it to the disk (docs/fleet.md). */
const costs = { redisMs: 0.1, submitterMs: 3 };
const loadMs = 20_000;
const table = { pairs: 5 * 240 * 2, searchesPerPair: 5, ...times };
const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;
printNote(
  `Unit times: controls ${durationText(mean(times.controlsMs))}, searches ${durationText(mean(times.searchesMs))} on average` +
    `${timingsFile === undefined ? ' (assumed)' : ''}; ${workersPerGpu} workers per GPU, 0.05 deaths per worker and hour, 20 s to load models, lease 30 s.`,
);
printTable(
  [
    ['GPUs', 'wall time', 'ideal', 'efficiency', 'tail', 'Redis busy', 'submitter busy', 'deaths', 'limit'],
    ...[1, 8, 64, 512].map((gpus) => {
      const workers = gpus * workersPerGpu;
      const fleet = { workers, loadMs, failuresPerWorkerHour: 0.05, leaseMs: 30_000, ...costs };
      const result = simulate(table, fleet);
      return [
        ...[String(gpus), durationText(result.wallMs), durationText(result.idealMs)],
        ...[percentText(result.idealMs / result.wallMs), durationText(result.tailMs)],
        ...[
          percentText(result.redisBusy),
          percentText(result.submitterBusy),
          String(result.deaths),
          result.limit,
        ],
      ];
    }),
  ],
  'The research table: 12,000 searches',
);
if (timingsFile === undefined) {
  const run = { pairs: measuredRun.pairs, searchesPerPair: 2, ...times };
  const fleet = { workers: workersPerGpu, loadMs, failuresPerWorkerHour: 0, leaseMs: 0, ...costs };
  printNote(
    `The run behind these times took ${measuredRun.minutes} min; simulated: ${durationText(simulate(run, fleet).wallMs)}.`,
  );
}

const queueUnits = valueOf('--queue');
if (queueUnits !== undefined) await measureQueue(Number(queueUnits));
