/**
 * The command line meets malicious files of every sort: no crash, little CPU time and memory, one sentence, exit code 2.
 * `npm run fuzz` tries all of them.
 */
import { beforeAll, describe, expect, it } from 'vitest';
import { transpileForTests } from '../support/transpiled-sources.js';
import type { CommandRun } from './command-run.js';
import { findCommandFault } from './command-run.js';
import { representativeCases, runCorpus } from './corpus.js';
import { maxBytes } from './kind.js';

const isLinux = process.platform === 'linux'; // for /dev/zero, mkfifo and /proc

describe.skipIf(!isLinux)('the command line refuses', () => {
  const { main } = transpileForTests('corpus');
  let runs: ReadonlyMap<string, CommandRun>;
  beforeAll(async () => {
    runs = await runCorpus(main, representativeCases);
  });

  it.each(representativeCases)('$name', ({ name }) => {
    expect(findCommandFault(runs.get(name)!, maxBytes)).toBeUndefined();
  });
});
