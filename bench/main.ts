/**
 * The benchmarks: `npm run bench -- NAME [OPTIONS]` runs one case and writes bench/results/NAME.json, `npm run bench`
 * lists the cases, and `npm run bench -- --tables [NAME ...]` prints result files as Markdown for the docs.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { packageRoot } from '../src/core/package-files.js';
import { describeMachine, type Machine } from '../src/runs/run-device.js';
import { type Recording, formatTable, recording } from './stopwatch.js';

/** [case] what it measures. A case is the module of the same name, which measures when it is imported. */
const cases: Readonly<Record<string, string>> = {
  engine: 'decoding and prefill of the bundled target; beside llama.cpp if MISTLETOE_LLAMA_CPP names it',
  'forward-backward': 'a batch of 64 x 64 tokens forward and backward, beside PyTorch',
  quantization: 'speed, perplexity and greedy agreement of int8 and int4 beside float32 on the CPU',
  'quantized-drafts': "drafted int8 and int4 answers equal to plain decoding's, and the cost of a second row",
  'auto-policy': 'the adaptive policy against fixed ones, with one sequence and with eight',
  'hybrid-drafting': 'a lookup beside a drafter against its halves, with auto and chain:4',
  'audit-step': "one step of the audit's search, beside PyTorch with a prefix cache",
  'training-step': 'one training step of EAGLE-3 and of a draft model, beside PyTorch',
  'training-gradients': "training gradients against PyTorch's; --write updates test/golden/training.json",
  loading: 'first token and peak memory of a 1.1 B checkpoint, cold and warm (npm run build first)',
  gpu: 'on an NVIDIA GPU: decoding and audit step beside PyTorch, and agreement with the CPU',
  fleet: 'the research table on 1 to 512 GPUs, simulated; --queue 10000 measures a queue',
  'guard-detection': 'what the guard detects, on audited attacks and benign prompts',
  'guard-live': 'the guard before a real server: attacks, benign requests, replay; --quick for a small run',
  'guard-cost':
    'throughput, CPU time and latency of the guard on loopback, beside nginx and a plain Node proxy',
};

interface BenchResult extends Recording {
  readonly name: string;
  readonly options: readonly string[];
  readonly date: string;
  readonly machine: Machine;
}

const folder = join(packageRoot, 'bench/results');
const [name, ...options] = process.argv.slice(2);
if (name === undefined) listCases();
else if (name === '--tables') printResults(options);
else await runCase(name, options);

function listCases(): void {
  console.log('npm run bench -- NAME [OPTIONS]\n');
  for (const [each, summary] of Object.entries(cases)) console.log(`  ${each.padEnd(20)}${summary}`);
  console.log('\nnpm run bench -- --tables [NAME ...]  prints bench/results as Markdown');
}

async function runCase(caseName: string, caseOptions: readonly string[]): Promise<void> {
  if (!Object.hasOwn(cases, caseName)) {
    listCases();
    throw new Error(`Unknown benchmark ${caseName}. Expected one of ${Object.keys(cases).join(', ')}.`);
  }
  // Cases read their options where a script of its own would find them.
  process.argv.splice(2, process.argv.length, ...caseOptions);
  const machine = describeMachine();
  const { version } = createRequire(import.meta.url)('onnxruntime-node/package.json') as { version: string };
  recording.versions['onnxruntime-node'] = version;
  console.log(`${describe(machine)}\n`);
  await import(`./${caseName}.js`);
  const result: BenchResult = {
    name: caseName,
    options: caseOptions,
    date: new Date().toISOString().slice(0, 10),
    machine,
    versions: recording.versions,
    tables: recording.tables,
    notes: recording.notes,
  };
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${caseName}.json`);
  writeFileSync(file, `${JSON.stringify(result, undefined, 2)}\n`);
  console.log(`written: ${file}`);
}

function printResults(names: readonly string[]): void {
  const stored = readdirSync(folder).filter((file) => file.endsWith('.json'));
  for (const file of stored.sort()) {
    const result = JSON.parse(readFileSync(join(folder, file), 'utf8')) as BenchResult;
    if (names.length > 0 && !names.includes(result.name)) continue;
    const versions = Object.entries(result.versions).map(([what, version]) => `${what} ${version}`);
    const command = ['npm run bench --', result.name, ...result.options].join(' ');
    console.log(`## ${result.name}\n`);
    console.log(`\`${command}\`, ${result.date}: ${[describe(result.machine), ...versions].join(', ')}\n`);
    for (const table of result.tables) console.log(`${formatTable(table)}\n`);
    for (const note of result.notes) console.log(`${note}\n`);
  }
}

function describe({ processor, architecture, cores, nodeVersion, mistletoeVersion }: Machine): string {
  return `${processor} (${architecture}), ${cores} cores, Node ${nodeVersion}, Mistletoe ${mistletoeVersion}`;
}
