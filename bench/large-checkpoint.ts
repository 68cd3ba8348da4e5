/**
 * A checkpoint of 1.1 B parameters in float16 with random weights, written to a temporary folder, and what
 * `mistletoe generate` needs for it: time to the first token, cold and warm, and peak memory. Then passes over one and
 * over four rows, by turns, with weights packed in the cache, packed in memory, and not packed.
 * Run: npm run build && npm run bench:large   (needs about 16 GB of disk and 10 GB of memory; Linux, for /proc)
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../src/decode/bundled-models.js';
import { describeMachine } from '../src/measure/machine.js';
import { comparePasses, readStatus } from './packed-passes.js';
import { writeRandomCheckpoint } from './random-checkpoint.js';
import { printTable } from './stopwatch.js';

const folder = mkdtempSync(join(tmpdir(), 'mistletoe-large-'));
try {
  const parameters = writeRandomCheckpoint(folder);
  const machine = describeMachine();
  console.log(
    `${machine.processor} (${machine.architecture}), ${machine.cores} cores; ${(parameters / 1e9).toFixed(2)} B parameters, float16\n`,
  );
  const rows = [['run', 'first token', 'peak resident', 'of it anonymous']];
  for (const run of ['cold (converts the weights)', 'warm (cache file present)']) {
    const { firstMs, peakBytes, anonymousBytes } = await generate();
    const gigabytes = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
    rows.push([run, `${(firstMs / 1000).toFixed(1)} s`, gigabytes(peakBytes), gigabytes(anonymousBytes)]);
  }
  printTable(rows);
  console.log();
  await comparePasses(folder, join(folder, 'cache'));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** The real command in a process of its own, watched from outside. */
async function generate(): Promise<{ firstMs: number; peakBytes: number; anonymousBytes: number }> {
  const start = performance.now();
  const child = spawn(
    process.execPath,
    [
      join(packageRoot, 'dist/cli/main.js'),
      'generate',
      '--target',
      folder,
      '--raw',
      '--prompt',
      'Once upon a time',
      '--max-new-tokens',
      '4',
      '--cache-dir',
      join(folder, 'cache'),
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let firstMs = 0;
  let peakBytes = 0;
  let anonymousBytes = 0;
  child.stdout.on('data', () => {
    firstMs ||= performance.now() - start;
  });
  const watch = setInterval(() => {
    try {
      peakBytes = Math.max(peakBytes, readStatus(String(child.pid), 'VmHWM'));
      anonymousBytes = Math.max(anonymousBytes, readStatus(String(child.pid), 'RssAnon'));
    } catch {
      // The child has just ended.
    }
  }, 50);
  const status = await new Promise((resolve) => child.on('exit', resolve));
  clearInterval(watch);
  if (status !== 0) throw new Error(`generate ended with exit code ${String(status)}`);
  return { firstMs, peakBytes, anonymousBytes };
}
