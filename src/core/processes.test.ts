import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { readProcessUsage } from './processes.js';

describe.skipIf(process.platform !== 'linux')('the usage of a process', () => {
  it('is its CPU time and its resident memory', () => {
    const before = readProcessUsage(process.pid)!;
    const held = Buffer.alloc(64 * 2 ** 20, 1);
    const start = process.cpuUsage();
    while (process.cpuUsage(start).user < 100_000) held[0] = 1;
    const after = readProcessUsage(process.pid)!;
    expect(after.cpuMs - before.cpuMs).toBeGreaterThanOrEqual(80); // a tick is 10 ms
    expect(Math.abs(after.residentBytes / process.memoryUsage.rss() - 1)).toBeLessThan(0.2);
  });

  it('is unknown once it has ended', async () => {
    const child = spawn(process.execPath, ['--version'], { stdio: 'ignore' });
    await once(child, 'close');
    expect(readProcessUsage(child.pid!)).toBeUndefined();
  });
});
