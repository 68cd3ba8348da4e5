/** Training runs in processes of their own that are killed again and again, and must end as if nothing had happened. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Ended, ProcessOptions } from '../support/killed-runs.js';
import { killAndResume, runProcess } from '../support/killed-runs.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const { folder: build, main } = transpileForTests('train-kill');
const models = new TinyAudits();

const data = join(build, 'data.jsonl');
beforeAll(() => {
  const letters = 'abcdefghijklmnopqrstuvwx';
  const starts = Array.from({ length: 12 }, (_, index) => 2 * index);
  const prompts = starts.map((start) => `${letters}${letters}`.slice(start, start + 6));
  writeFileSync(data, prompts.map((prompt) => `${JSON.stringify({ prompt })}\n`).join(''));
});
afterAll(async () => {
  await models.dispose();
});

/** EAGLE, whose noise is drawn anew in every update; rows with several texts, whose states are kept in the first epoch. */
const startWords = (out: string): string[] => [
  ...['--target', models.targetFolder, '--system', 'eagle', '--data', data, '--out', out],
  ...['--steps', '12', '--batch-tokens', '96', '-n', '20', '--learning-rate', '0.01', '--temperature', '0.7'],
  ...[
    '--validation',
    '0.2',
    '--validate-every',
    '4',
    '--save-every',
    '3',
    '--threads',
    '1',
    '--device',
    'cpu',
  ],
  ...['--rows', 'packed', '--keep-states', '1MB'],
];

function train(words: readonly string[], options: ProcessOptions = {}): Promise<Ended> {
  return runProcess([main, 'train', ...words, '--cache-dir', models.cacheFolder], options);
}

const drafterFiles = ['config.json', 'model.safetensors'];
const weights = ['best', 'last', 'start'].flatMap((name) => drafterFiles.map((file) => join(name, file)));

interface RunContents {
  readonly bytes: readonly string[];
  readonly answers: readonly string[];
  readonly names: readonly string[];
}

function readRun(folder: string): RunContents {
  const read = (name: string): string => readFileSync(join(folder, name)).toString('latin1');
  return {
    bytes: [...weights, 'log.jsonl'].map(read),
    // Conversations are answered several at once: which one is written first is nobody's promise.
    answers: read('answers.jsonl').split('\n').sort(),
    names: readdirSync(folder).sort(),
  };
}

describe('kill -9', () => {
  it('at 20 random moments leaves no trace', async () => {
    const whole = models.freshFolder();
    expect(await train(startWords(whole))).toEqual({ code: 0, errors: '' });
    const expected = readRun(whole);
    const folders = await killAndResume({
      ...{ kills: 20, maxEvents: 10, freshFolder: () => models.freshFolder() },
      start: (folder, killing) => train(startWords(folder), { killing }),
      resume: (folder, killing) => train(['--resume', folder], { killing }),
    });
    for (const folder of folders) expect(readRun(folder)).toEqual(expected);
  });
});

describe.skipIf(process.platform === 'win32')('a disk that takes no more', () => {
  it('while the state is written leaves the old one, from which the run goes on', async () => {
    const words = (out: string): string[] => [
      ...startWords(out),
      // Large enough that the state is larger than anything else that is written.
      ...['--system', 'speculative-sampling', '--layers', '1', '--hidden-size', '256', '--steps', '8'],
    ];
    const whole = models.freshFolder();
    expect(await train(words(whole))).toEqual({ code: 0, errors: '' });
    const folder = models.freshFolder();
    // Behind the answers, between two updates.
    const stopped = await train(words(folder), {
      killing: { when: (_, heard) => heard === 21, signal: 'SIGINT' },
    });
    expect(stopped.code).toBe(130);
    const state = readFileSync(join(folder, 'state.safetensors'));
    // The weights fit, the state, three times as large, does not: sh counts in blocks of 512 bytes.
    const blocks = Math.floor(state.length / 2 / 512);
    const failed = await train(['--resume', folder], { limit: `ulimit -f ${blocks}` });
    expect(failed.code).toBe(1);
    expect(failed.errors).toMatch(
      /^error: state\.safetensors could not be written to [^\n]*: EFBIG[^\n]*; what was saved before is safe\.\nhint: [^\n]* Then go on with: mistletoe train --resume [^\n]*\n$/,
    );
    expect(readFileSync(join(folder, 'state.safetensors')).equals(state)).toBe(true);
    expect(await train(['--resume', folder])).toEqual({ code: 0, errors: '' });
    expect(readRun(folder)).toEqual(readRun(whole));
  });
});
