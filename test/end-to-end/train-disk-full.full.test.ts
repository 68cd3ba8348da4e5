/** A training run whose disk is full when it saves its state. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readRun, TrainingProcesses } from './training-processes.js';

const runs = new TrainingProcesses();
afterAll(() => runs.dispose());

describe.skipIf(process.platform === 'win32')('a full disk', () => {
  it('while the state is written leaves the old one, from which the run resumes', async () => {
    const words = (out: string): string[] => [
      ...runs.startWords(out),
      // Large enough that the state is the largest file.
      ...['--system', 'speculative-sampling', '--layers', '1', '--hidden-size', '256', '--steps', '8'],
    ];
    const expected = await runs.trainHere(words);
    const folder = runs.freshFolder();
    // After the answers, between two updates.
    const stopped = await runs.train(words(folder), {
      killing: { when: (_, heard) => heard === 21, signal: 'SIGINT' },
    });
    expect(stopped.code).toBe(130);
    const state = readFileSync(join(folder, 'state.safetensors'));
    // The weights fit, the state, three times as large, does not: sh counts in blocks of 512 bytes.
    const blocks = Math.floor(state.length / 2 / 512);
    const failed = await runs.train(['--resume', folder], { limit: `ulimit -f ${blocks}` });
    expect(failed.code).toBe(1);
    expect(failed.errors).toMatch(
      /^error: state\.safetensors could not be written to [^\n]*: EFBIG[^\n]*; what was saved before is safe\.\nhint: [^\n]* Then resume with: mistletoe train --resume [^\n]*\n$/,
    );
    expect(readFileSync(join(folder, 'state.safetensors')).equals(state)).toBe(true);
    expect(await runs.train(['--resume', folder])).toEqual({ code: 0, errors: '' });
    expect(readRun(folder)).toEqual(expected);
  });
});
