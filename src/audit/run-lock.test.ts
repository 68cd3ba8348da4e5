import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import ts from 'typescript';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../checkpoint/testing/temporary-folder.js';
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
    const { folder: resumed } = RunFolder.resume(folder.path);
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
    const { folder } = RunFolder.resume(path);
    expect(JSON.parse(readFileSync(lockOf(path), 'utf8'))).toMatchObject({ pid: process.pid });
    folder.close();
    expect(existsSync(lockOf(path))).toBe(false);
  });

  it.skipIf(!existsSync('/proc/self/stat'))('is taken over where another process has the id now', () => {
    const path = interruptedRun();
    writeLock(path, { processStart: startOf(process.pid) });
    expect(() => RunFolder.resume(path)).toThrow('is open');
    writeLock(path, { processStart: '1' });
    RunFolder.resume(path).folder.close();
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
    RunFolder.resume(path).folder.close();
    expect(readdirSync(path).filter((name) => name.startsWith('run.lock'))).toEqual([]);
  });

  it('and other leftovers of a creation that was killed are no obstacle to the next', () => {
    const path = freshFolder();
    mkdirSync(path);
    writeLock(path, { pid: 999999999 });
    writeFileSync(join(path, 'config.json.part'), '{');
    RunFolder.create(path, {}).close();
    expect(readdirSync(path).sort()).toEqual(['config.json', 'timings.jsonl']);
  });
});

const listModules = (folder: string): string[] =>
  readdirSync(folder).flatMap((name) => (/^[^.]+\.ts$/.test(name) ? [name.slice(0, -'.ts'.length)] : []));

/** The rooms that a run folder stands on, so that processes of their own can use it. */
function buildForChildProcesses(build: string): void {
  const source = resolve(import.meta.dirname, '..');
  for (const name of [
    ...listModules(join(source, 'core')).map((name) => `core/${name}`),
    ...['json-lines', 'run-folder', 'run-lock', 'run-place', 'run-units', 'run-writes'].map((own) => `audit/${own}`), // prettier-ignore
  ]) {
    const { outputText } = ts.transpileModule(readFileSync(join(source, `${name}.ts`), 'utf8'), {
      compilerOptions: {
        target: ts.ScriptTarget.ES2022,
        module: ts.ModuleKind.ESNext,
        verbatimModuleSyntax: true,
      },
    });
    mkdirSync(join(build, name, '..'), { recursive: true });
    writeFileSync(join(build, `${name}.js`), outputText);
  }
  writeFileSync(join(build, 'package.json'), '{"type": "module"}');
  symlinkSync(resolve(source, '../node_modules'), join(build, 'node_modules'), 'dir');
  writeFileSync(
    join(build, 'open.js'),
    `import { once } from 'node:events';
     import { RunFolder } from './audit/run-folder.js';
     const [, , how, path] = process.argv;
     console.log('ready');
     await once(process.stdin, 'data');
     try {
       const folder =
         how === 'create' ? RunFolder.create(path, {})
         : how === 'number' ? RunFolder.createNumbered(path, 'run', {})
         : RunFolder.resume(path).folder;
       console.log('opened ' + folder.path);
     } catch (failure) {
       console.log('refused ' + failure.message);
     }
     setInterval(() => {}, 1e6);`,
  );
}

describe('processes that open a run at the same moment', () => {
  const build = join(temporary.path, 'build');
  beforeAll(() => {
    buildForChildProcesses(build);
  });

  interface Opener {
    readonly child: ChildProcess;
    readonly hear: () => Promise<string>;
  }

  function start(how: string, path: string): Opener {
    const child = spawn(process.execPath, [join(build, 'open.js'), how, path], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    children.push(child);
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    return { child, hear: async () => String((await lines.next()).value) };
  }

  /** What each of them says, all having waited for the last to be ready. */
  async function openAtOnce(how: string, path: string, processes: number): Promise<string[]> {
    const openers = Array.from({ length: processes }, () => start(how, path));
    await Promise.all(openers.map(({ hear }) => hear()));
    for (const { child } of openers) child.stdin!.write('go\n');
    return Promise.all(openers.map(({ hear }) => hear()));
  }

  const refusals = /^refused .* (is open: process \d+ has been|already holds a run)/;

  it('create one folder: one wins, the others get a sentence', async () => {
    const said = await openAtOnce('create', freshFolder(), 5);
    expect(said.filter((line) => line.startsWith('opened'))).toHaveLength(1);
    expect(said.filter((line) => refusals.test(line))).toHaveLength(4);
  }, 60_000);

  it('ask for the next number: each gets its own', async () => {
    const parent = freshFolder();
    const said = await openAtOnce('number', parent, 4);
    expect(said.sort()).toEqual([1, 2, 3, 4].map((number) => `opened ${join(parent, `run-${number}`)}`));
  }, 60_000);

  it('resume a run whose process was killed: one wins', async () => {
    const path = freshFolder();
    const { child, hear } = start('create', path);
    await hear();
    child.stdin!.write('go\n');
    expect(await hear()).toBe(`opened ${path}`);
    expect(() => RunFolder.resume(path)).toThrow(`process ${child.pid!} has been working on it`);
    child.kill('SIGKILL');
    await once(child, 'close');
    const said = await openAtOnce('resume', path, 5);
    expect(said.filter((line) => line.startsWith('opened'))).toHaveLength(1);
    expect(said.filter((line) => refusals.test(line))).toHaveLength(4);
  }, 60_000);
});
