/**
 * How long a checkpoint of 7B parameters (13.5 GB in bfloat16, three shards, random) takes from the disk to a GPU's first
 * pass, and what memory of the host it takes meanwhile: once with the files dropped from the page cache, as well as that
 * can be done, and once with them in it. Each load is a process of its own. Needs 13.5 GB of disk.
 * Run: npm run bench:gpu-loading [-- SHAPE [FOLDER]]
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describeCause } from '../src/core/errors.js';
import { loadModel } from '../src/model/causal-model.js';
import { writeRandomDecoder } from './gpu-checkpoints.js';
import type { ShapeName } from './gpu-models.js';
import { chooseShapes, openBenchDevice, shapes } from './gpu-models.js';
import { readStatus } from './packed-passes.js';
import { printTable } from './stopwatch.js';

interface Loading {
  readonly device: string;
  readonly openMs: number;
  readonly loadMs: number;
  readonly passMs: number;
  readonly peakBytes: number;
  readonly peakAnonymousBytes: number;
}

const asChild = 'load';
const [name] = chooseShapes(['7B']);
const [, , , place, role] = process.argv;
if (role === asChild) console.log(JSON.stringify(await load(name!, place!)));
else compare(name!, place ?? tmpdir());

function compare(shape: ShapeName, parent: string): void {
  const folder = mkdtempSync(join(parent, 'mistletoe-loading-'));
  try {
    const start = performance.now();
    const bytes = writeRandomDecoder(folder, shapes[shape]);
    const writtenMs = performance.now() - start;
    console.log(`${shape} shape: ${gigabytes(bytes)} written to ${folder} in ${seconds(writtenMs)}`);
    const rows = [
      ['files', 'device opened', 'loaded', 'GB/s', 'first pass', 'peak of the host', 'of it anonymous'],
    ];
    for (const state of ['cold', 'warm'] as const) {
      const files = state === 'cold' ? dropFromCache(folder) : 'in the page cache';
      const loading = loadInChild(shape, folder);
      if (loading === undefined) continue;
      const { openMs, loadMs, passMs, peakBytes, peakAnonymousBytes } = loading;
      rows.push([
        ...[files, seconds(openMs), seconds(loadMs), (bytes / loadMs / 1e6).toFixed(2), seconds(passMs)],
        ...[gigabytes(peakBytes), gigabytes(peakAnonymousBytes)],
      ]);
    }
    printTable(rows);
    for (const state of ['cold', 'warm'] as const) {
      const files = state === 'cold' ? dropFromCache(folder) : 'in the page cache';
      const begun = performance.now();
      for (const file of weightFiles(folder)) spawnSync('dd', [`if=${file}`, 'of=/dev/null', 'bs=8M']);
      const readMs = performance.now() - begun;
      console.log(
        `dd reads them (${files}) in ${seconds(readMs)}: ${(bytes / readMs / 1e6).toFixed(2)} GB/s`,
      );
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function weightFiles(folder: string): string[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.safetensors'))
    .map((file) => join(folder, file));
}

/** Returns what was done, in words. */
function dropFromCache(folder: string): string {
  spawnSync('sync');
  try {
    writeFileSync('/proc/sys/vm/drop_caches', '3');
    return 'caches dropped';
  } catch {
    // Only the system's administrator may; of single files anybody may ask it.
  }
  const all = weightFiles(folder).map((file) => spawnSync('dd', [`if=${file}`, 'iflag=nocache', 'count=0']));
  return all.every(({ status }) => status === 0) ? 'asked to be dropped' : 'in the page cache, perhaps';
}

function loadInChild(shape: ShapeName, folder: string): Loading | undefined {
  const script = fileURLToPath(import.meta.url);
  const child = spawnSync(process.execPath, [script, shape, folder, asChild], { encoding: 'utf8' });
  try {
    return JSON.parse(child.stdout.trim().split('\n').at(-1)!) as Loading;
  } catch (cause) {
    console.log(`Loading failed (${describeCause(cause)}): ${child.stdout} ${child.stderr}`);
    return undefined;
  }
}

async function load(shape: ShapeName, folder: string): Promise<Loading> {
  let peakAnonymousBytes = 0;
  const watch = setInterval(() => {
    peakAnonymousBytes = Math.max(peakAnonymousBytes, readStatus('self', 'RssAnon'));
  }, 20);
  const start = performance.now();
  const { runtime, device, name: deviceName } = openBenchDevice(shape);
  const opened = performance.now();
  const model = await loadModel(folder, { runtime, cacheFolder: join(folder, 'cache') });
  await model.prepare();
  await device?.synchronize();
  const loaded = performance.now();
  await model.forward({ tokens: Int32Array.of(1, 2, 3), cache: model.createCache(), want: ['argmax'] });
  const passed = performance.now();
  clearInterval(watch);
  const peakBytes = readStatus('self', 'VmHWM');
  await runtime.dispose();
  return {
    ...{ device: deviceName, openMs: opened - start, loadMs: loaded - opened, passMs: passed - loaded },
    ...{ peakBytes, peakAnonymousBytes },
  };
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`;
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(2)} GB`;
}
