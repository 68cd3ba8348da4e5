/** Processes that open one run folder at the same moment. */
import type { ChildProcess } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { byTier } from '../../test/support/tier.js';
import { transpileForTests } from '../../test/support/transpiled-sources.js';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { RunFolder } from './run-folder.js';

const { folder: build } = transpileForTests('run-lock');
const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
let count = 0;
const freshFolder = (): string => join(temporary.path, `run-${(count += 1)}`);
const processes = byTier({ quick: 3, full: 8 });

const children: ChildProcess[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'close');
  }
});

const opener = `
  import { once } from 'node:events';
  import { RunFolder } from './src/runs/run-folder.js';
  const [, , how, path] = process.argv;
  console.log('ready');
  await once(process.stdin, 'data');
  try {
    const folder =
      how === 'create' ? RunFolder.create(path, {})
      : how === 'number' ? RunFolder.create({ parent: path, name: 'run' }, {})
      : RunFolder.resume(path);
    console.log('opened ' + folder.path);
  } catch (failure) {
    console.log('refused ' + failure.message);
  }
  setInterval(() => {}, 1e6);`;
beforeAll(() => {
  writeFileSync(join(build, 'open.mjs'), opener);
});

interface Opener {
  readonly child: ChildProcess;
  readonly nextLine: () => Promise<string>;
}

function start(how: string, path: string): Opener {
  const child = spawn(process.execPath, [join(build, 'open.mjs'), how, path], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  children.push(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return { child, nextLine: async () => String((await lines.next()).value) };
}

/** What each of them prints. All wait until the last is ready. */
async function openAtOnce(how: string, path: string): Promise<string[]> {
  const openers = Array.from({ length: processes }, () => start(how, path));
  await Promise.all(openers.map(({ nextLine }) => nextLine()));
  for (const { child } of openers) child.stdin!.write('go\n');
  return Promise.all(openers.map(({ nextLine }) => nextLine()));
}

const refusals = /^refused .* (is open: process \d+ has been|already holds a run)/;

function expectOneWinner(printed: readonly string[]): void {
  expect(printed.filter((line) => line.startsWith('opened'))).toHaveLength(1);
  expect(printed.filter((line) => refusals.test(line))).toHaveLength(processes - 1);
}

it(`${processes} that create one folder: one wins, the others get a sentence`, async () => {
  expectOneWinner(await openAtOnce('create', freshFolder()));
});

it(`${processes} that ask for the next number: each gets its own`, async () => {
  const parent = freshFolder();
  const numbers = Array.from({ length: processes }, (_, index) => index + 1);
  const expected = numbers.map((number) => `opened ${join(parent, `run-${number}`)}`);
  expect((await openAtOnce('number', parent)).sort()).toEqual(expected);
});

it(`${processes} that resume a run whose process was killed: one wins`, async () => {
  const path = freshFolder();
  const { child, nextLine } = start('create', path);
  await nextLine();
  child.stdin!.write('go\n');
  expect(await nextLine()).toBe(`opened ${path}`);
  expect(() => RunFolder.resume(path)).toThrow(`process ${child.pid!} has been working on it`);
  child.kill('SIGKILL');
  await once(child, 'close');
  expectOneWinner(await openAtOnce('resume', path));
});
