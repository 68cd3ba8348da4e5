/**
 * The fuzz suites for long. Run: npm run fuzz [-- KIND ...] [--runs N] [--seed S]
 * Prints a table, and every fault with the seed that makes its file again. The kind `corpus` is the malicious files,
 * each met by the command line in a process of its own (Linux).
 */
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { describeMachine } from '../../src/runs/run-device.js';
import { findCommandFault } from './command-run.js';
import { runCorpus } from './corpus.js';
import { maxBytes } from './kind.js';
import { fuzzKinds } from './kinds.js';
import type { KindRun } from './run-kinds.js';
import { runKinds } from './run-kinds.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { runs: { type: 'string' }, seed: { type: 'string' } },
});
const names = [...fuzzKinds.map(({ name }) => name), 'corpus'];
const unknown = positionals.find((name) => !names.includes(name));
const [seed, runs] = [Number(values.seed ?? 1), values.runs === undefined ? undefined : Number(values.runs)];
if (unknown !== undefined || !Number.isSafeInteger(seed) || (runs !== undefined && !(runs >= 1))) {
  console.error(`Usage: npm run fuzz -- [${names.join('|')}] [--runs N] [--seed S]`);
  process.exit(2);
}

/** Sixty times what the full tier tries, where nothing else is asked for. */
const longerBy = 10;
const worker = fileURLToPath(new URL('./worker.js', import.meta.url));
const chosen = fuzzKinds.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
const { processor, cores, nodeVersion, mistletoeVersion } = describeMachine();
console.log(
  `${processor}, ${cores} cores; Node ${nodeVersion}, Mistletoe ${mistletoeVersion}; from seed ${seed}\n`,
);

const results = new Map<string, KindRun>();
const queue = [...chosen];
await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, () => workOff()));
if (positionals.length === 0 || positionals.includes('corpus')) results.set('corpus', await meetCorpus());

/** The CPU time of a command includes the start of Node and of the program. */
async function meetCorpus(): Promise<KindRun> {
  const main = fileURLToPath(new URL('../../src/cli/main.js', import.meta.url));
  const runs = [...(await runCorpus(main))];
  const faults = runs.flatMap(([name, run], index) => {
    const what = findCommandFault(run, maxBytes);
    return what === undefined ? [] : [{ seed: index, what: `${name}: ${what}` }];
  });
  const slowest = runs
    .map(([, { cpuMs }], index) => ({ cpuMs, index }))
    .toSorted((left, right) => right.cpuMs - left.cpuMs)[0]!;
  return {
    ...{ files: runs.length, accepted: 0, refused: runs.length - faults.length, faults },
    ...{ slowestCpuMs: slowest.cpuMs, slowestSeed: slowest.index },
    peakBytes: Math.max(...runs.map(([, { peakBytes }]) => peakBytes)),
  };
}

async function workOff(): Promise<void> {
  for (let kind = queue.shift(); kind !== undefined; kind = queue.shift()) {
    const plan = { kind: kind.name, first: seed, count: runs ?? longerBy * kind.boundedRuns };
    results.set(kind.name, (await runKinds(worker, [plan])).get(kind.name)!);
    console.error(`${kind.name} is done`);
  }
}

console.log('| kind | files | accepted | refused | slowest (CPU) | peak | faults |');
console.log('| --- | --: | --: | --: | --: | --: | --: |');
for (const name of names.filter((each) => results.has(each))) {
  const { files, accepted, refused, slowestCpuMs, peakBytes, faults } = results.get(name)!;
  const cells = [
    files,
    accepted,
    refused,
    `${Math.ceil(slowestCpuMs)} ms`,
    `${Math.round(peakBytes / 2 ** 20)} MiB`,
  ];
  console.log(`| ${[name, ...cells, faults.length].join(' | ')} |`);
}
let faults = 0;
for (const [name, run] of results) {
  for (const { seed: at, what } of run.faults) console.log(`\n${name}, seed ${at}: ${what}`);
  faults += run.faults.length;
}
process.exitCode = faults === 0 ? 0 : 1;
