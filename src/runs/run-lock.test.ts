import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { RunFolder } from './run-folder.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
let count = 0;
const freshFolder = (): string => join(temporary.path, `run-${(count += 1)}`);

function interruptedRun(): string {
  const folder = RunFolder.create(freshFolder(), { seed: 1 });
  folder.complete('a', {});
  folder.close();
  return folder.path;
}

const lockOf = (folder: string): string => join(folder, 'run.lock');
const startOf = (pid: number): string => readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ')[19]!; // prettier-ignore

function writeLock(folder: string, holder: object): void {
  const own = { pid: process.pid, processStart: null, host: hostname(), since: '2026-01-02T03:04:05.000Z', nonce: '0123456789abcdef' }; // prettier-ignore
  writeFileSync(lockOf(folder), JSON.stringify({ ...own, ...holder }));
}

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

describe('the lock of a run', () => {
  it('refuses a second process-wide opening until the first is closed', () => {
    const folder = RunFolder.create(freshFolder(), {});
    const since = /^.* is open: this process \(\d+\) has been working on it since \d{4}-.*Z\.$/;
    expect(() => RunFolder.resume(folder.path)).toThrow(since);
    folder.close();
    const resumed = RunFolder.resume(folder.path);
    expect(() => RunFolder.resume(folder.path)).toThrow(since);
    resumed.close();
    expect(existsSync(lockOf(folder.path))).toBe(false);
  });

  it('names the living process that holds it', () => {
    const path = interruptedRun();
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)']);
    children.push(child);
    writeLock(path, { pid: child.pid });
    expect(() => RunFolder.resume(path)).toThrow(
      `${path} is open: process ${child.pid} has been working on it since 2026-01-02T03:04:05.000Z.`,
    );
  });

  it('is taken over from a dead process', async () => {
    const path = interruptedRun();
    const child = spawn(process.execPath, ['-e', '0']);
    await once(child, 'close');
    writeLock(path, { pid: child.pid });
    const folder = RunFolder.resume(path);
    expect(JSON.parse(readFileSync(lockOf(path), 'utf8'))).toMatchObject({ pid: process.pid });
    folder.close();
    expect(existsSync(lockOf(path))).toBe(false);
  });

  it.skipIf(!existsSync('/proc/self/stat'))('is taken over where another process has the id now', () => {
    const path = interruptedRun();
    writeLock(path, { processStart: startOf(process.pid) });
    expect(() => RunFolder.resume(path)).toThrow('is open');
    writeLock(path, { processStart: '1' });
    RunFolder.resume(path).close();
    expect(readdirSync(path)).not.toContain('run.lock');
  });

  it('of another machine is refused, with the way to remove it', () => {
    const path = interruptedRun();
    writeLock(path, { host: 'elsewhere', pid: 7 });
    expect(() => RunFolder.resume(path)).toThrow('process 7 on the machine elsewhere');
    expect(() => RunFolder.resume(path)).toThrow(
      expect.objectContaining({ hint: `If it does not, remove ${lockOf(path)} and try again.` }),
    );
    expect(existsSync(lockOf(path))).toBe(true);
  });

  it.each(['', 'null', '{"pid": 0}', '{"pid": -1, "host": "x"}'])(
    'that reads %j is not guessed at',
    (text) => {
      const path = interruptedRun();
      writeFileSync(lockOf(path), text);
      expect(() => RunFolder.resume(path)).toThrow('says that the run is open, but not in which process');
    },
  );

  it('survives that a process was killed while it took it over', () => {
    const path = interruptedRun();
    writeLock(path, { pid: 999999999 });
    const right = { pid: 999999998, processStart: null, host: hostname(), since: '', nonce: 'fedcba9876543210' }; // prettier-ignore
    writeFileSync(`${lockOf(path)}.0123456789abcdef`, JSON.stringify(right));
    writeFileSync(`${lockOf(path)}.999999997-0000000000000000.part`, '{');
    RunFolder.resume(path).close();
    expect(readdirSync(path).filter((name) => name.startsWith('run.lock'))).toEqual([]);
  });

  it('and other leftovers of a creation that was killed are no obstacle to the next', () => {
    const path = freshFolder();
    mkdirSync(path);
    writeLock(path, { pid: 999999999 });
    writeFileSync(join(path, `config.json.999999997.${'0'.repeat(16)}.${'0'.repeat(16)}.tmp`), '{');
    RunFolder.create(path, {}).close();
    expect(readdirSync(path).sort()).toEqual(['config.json', 'timings.jsonl']);
  });
});
