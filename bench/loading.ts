/** Loading a random 1.1 B float16 checkpoint with `mistletoe generate`: time to the first token and peak memory. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../src/core/package-files.js';
import { writeRandomCheckpoint } from './random-checkpoint.js';
import { printTable } from './stopwatch.js';

const folder = mkdtempSync(join(tmpdir(), 'mistletoe-large-'));
try {
  const parameters = writeRandomCheckpoint(folder);
  const rows = [['run', 'first token', 'peak resident', 'anonymous part']];
  const gigabytes = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  for (const run of ['cold (converts the weights)', 'warm (cache files present)']) {
    const { firstMs, peakBytes, anonymousBytes } = await generate();
    rows.push([run, `${(firstMs / 1000).toFixed(1)} s`, gigabytes(peakBytes), gigabytes(anonymousBytes)]);
  }
  printTable(rows, `${(parameters / 1e9).toFixed(2)} B parameters, float16`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function generate(): Promise<{ firstMs: number; peakBytes: number; anonymousBytes: number }> {
  const start = performance.now();
  const request = ['--target', folder, '--raw', '--prompt', 'Once upon a time', '--max-new-tokens', '4'];
  const child = spawn(
    process.execPath,
    [join(packageRoot, 'dist/cli/main.js'), 'generate', ...request, '--cache-dir', join(folder, 'cache')],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let [firstMs, peakBytes, anonymousBytes] = [0, 0, 0];
  child.stdout.on('data', () => {
    firstMs ||= performance.now() - start;
  });
  const watch = setInterval(() => {
    try {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      const read = (field: string): number =>
        1024 * Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1] ?? 0);
      peakBytes = Math.max(peakBytes, read('VmHWM'));
      anonymousBytes = Math.max(anonymousBytes, read('RssAnon'));
    } catch {
      // The child has just ended.
    }
  }, 50);
  const status = await new Promise((resolve) => child.on('exit', resolve));
  clearInterval(watch);
  if (status !== 0) throw new Error(`generate ended with exit code ${String(status)}`);
  return { firstMs, peakBytes, anonymousBytes };
}
