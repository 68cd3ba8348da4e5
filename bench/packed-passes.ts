/** Passes of a large model over one and over four rows with weights packed in the cache, packed in memory, and not packed. */
import { readFileSync } from 'node:fs';
import { prefill } from '../src/decode/prefill.js';
import { openTarget } from '../src/decode/target.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import type { Runtime } from '../src/runtime/program.js';
import { median, printTable } from './stopwatch.js';

const rowCounts = [1, 4];

interface Contender {
  readonly name: string;
  readonly loadMs: number;
  /** Grown by loading and a first pass of each kind. */
  readonly anonymousBytes: number;
  readonly runPass: (rows: number) => Promise<void>;
  /** [kind of pass] */
  readonly times: readonly number[][];
}

/** All of them in this process, one pass of each after the other: a noisy machine is noisy for all. */
export async function comparePasses(folder: string, cacheFolder: string): Promise<void> {
  const runtimes: readonly [string, Runtime][] = [
    ['packed, mapped from the cache', createOnnxRuntime()],
    ['packed in memory', createOnnxRuntime({ packedWeightLimitBytes: Infinity })],
    ['not packed', withoutPacking(createOnnxRuntime())],
  ];
  const contenders: Contender[] = [];
  for (const [name, runtime] of runtimes) contenders.push(await load(name, runtime, folder, cacheFolder));
  for (let turn = 0; turn < 8; turn += 1) {
    for (const { times, runPass } of contenders) {
      for (const [index, rows] of rowCounts.entries()) {
        const start = performance.now();
        await runPass(rows);
        times[index]!.push(performance.now() - start);
      }
    }
  }
  printTable([
    [
      'weights',
      'load and 4 tokens',
      'anonymous memory',
      ...rowCounts.map((rows) => `pass over ${rows}, median`),
    ],
    ...contenders.map(({ name, loadMs, anonymousBytes, times }) => [
      ...[name, `${(loadMs / 1000).toFixed(1)} s`, `${Math.round(anonymousBytes / 2 ** 20)} MiB`],
      ...times.map((each) => `${median(each).toFixed(0)} ms`),
    ]),
  ]);
  for (const [, runtime] of runtimes) await runtime.dispose();
}

function withoutPacking(runtime: Runtime): Runtime {
  return {
    name: runtime.name,
    allocate: (...size) => runtime.allocate(...size),
    compile: (outputs, weights) => runtime.compile(outputs, weights),
    dispose: () => runtime.dispose(),
  };
}

async function load(name: string, runtime: Runtime, folder: string, cacheFolder: string): Promise<Contender> {
  const before = readStatus('self', 'RssAnon');
  const start = performance.now();
  const { model } = await openTarget(folder, { runtime, cacheFolder });
  const cache = model.createCache();
  await prefill(model, cache, [1, 2, 3, 4], { want: [] });
  const loadMs = performance.now() - start;
  const runPass = async (rows: number): Promise<void> => {
    await model.forward({ tokens: new Int32Array(rows).fill(7), cache, want: ['argmax'] });
  };
  for (const rows of rowCounts) await runPass(rows);
  const anonymousBytes = readStatus('self', 'RssAnon') - before;
  return { name, loadMs, anonymousBytes, runPass, times: rowCounts.map(() => []) };
}

/** A size of a process, in bytes. */
export function readStatus(process: string, field: string): number {
  const status = readFileSync(`/proc/${process}/status`, 'utf8');
  return 1024 * Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1] ?? 0);
}
