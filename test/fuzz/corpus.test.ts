/** The command line meets each malicious file: no crash, soon, in little memory, one sentence, exit code 2. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CommandRun } from './command-run.js';
import { findCommandFault } from './command-run.js';
import { maliciousCases, runCorpus } from './corpus.js';
import { mostBytes } from './kind.js';
import { transpileInto } from './transpile.js';

const isLinux = process.platform === 'linux'; // for /dev/zero, mkfifo and /proc

describe.skipIf(!isLinux)('the command line refuses', () => {
  let build: string;
  let runs: ReadonlyMap<string, CommandRun>;
  beforeAll(async () => {
    build = transpileInto(`corpus-test-${process.pid}`, ['src']);
    runs = await runCorpus(join(build, 'src/cli/main.js'));
  }, 600_000);
  afterAll(() => {
    rmSync(build, { recursive: true, force: true });
  });

  it.each(maliciousCases)('$name', ({ name }) => {
    expect(findCommandFault(runs.get(name)!, mostBytes)).toBeUndefined();
  });
});
