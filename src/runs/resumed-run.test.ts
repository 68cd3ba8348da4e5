import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from '../core/schema.js';
import { afterAll, describe, expect, it } from 'vitest';
import { makeTemporaryFolder } from '../../test/support/checkpoint/temporary-folder.js';
import { MistletoeError } from '../core/errors.js';
import { openTrainingRun, withResumption } from './resumed-run.js';
import { createRun } from './run-place.js';

const temporary = makeTemporaryFolder();
afterAll(temporary.remove);
let count = 0;
const freshFolder = (): string => join(temporary.path, String((count += 1)));

const request = JSON.stringify({ version: '0.0.0' });
const file = z.object({ file: z.string(), sha256: z.string() });
const requestSchema = z.object({
  version: z.string(),
  targetFolder: z.string(),
  target: z.object({ sha256: z.string() }),
  data: file,
});

describe('the folder of a training run', () => {
  it('is the first number that nobody has', () => {
    const parent = freshFolder();
    const places = ['train-1', 'train-2'].map((name) => {
      const { path, lock } = createRun({ parent, name: 'train' }, request, 'train');
      expect(path).toBe(join(parent, name));
      lock.release();
      return path;
    });
    for (const path of places) expect(readdirSync(path)).toEqual(['config.json']);
  });

  it('is refused where it is used, and left as it is', () => {
    const path = freshFolder();
    createRun(path, request, 'train').lock.release();
    expect(() => createRun(path, request, 'train')).toThrow(`${path} already holds a run.`);
    const other = freshFolder();
    writeFileSync(other, 'a file');
    expect(() => createRun(other, request, 'train')).toThrow('is not a run of mistletoe train');
    expect(() => createRun(join(other, 'below'), request, 'train')).toThrow(/cannot be created/);
    expect(existsSync(join(path, 'run.lock'))).toBe(false);
  });

  it('is not gone on with where its config.json is another’s', async () => {
    const path = freshFolder();
    createRun(path, request, 'train').lock.release();
    const opening = openTrainingRun(path, { command: 'train', schema: requestSchema });
    await expect(opening).rejects.toThrow(
      /^config\.json of \S+ is not of a run of mistletoe train: "targetFolder" is wrong, [^\n]*\.$/,
    );
    await expect(openTrainingRun(freshFolder(), { command: 'train', schema: requestSchema })).rejects.toThrow(
      /holds no run of mistletoe train that can be read/,
    );
  });
});

describe('a disk that refuses', () => {
  const refusal = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });

  it('tells how to go on', () => {
    const failure = new MistletoeError('runtime', 'It could not be written.', {
      hint: 'Make room.',
      cause: refusal,
    });
    const path = freshFolder();
    createRun(path, request, 'train').lock.release();
    expect(withResumption(path, 'train', failure)).toMatchObject({
      message: 'It could not be written; what was saved before is safe.',
      hint: `Make room. Then resume with: mistletoe train --resume ${path}`,
    });
  });

  it('is not called safe where the folder of the run, or a part of it, was deleted', () => {
    const missing = Object.assign(new Error('ENOENT: no such file or directory, open'), { code: 'ENOENT' });
    const failure = new MistletoeError('runtime', 'It could not be written.', { cause: missing });
    const path = freshFolder();
    const lost = withResumption(path, 'train', failure) as MistletoeError;
    expect(lost.message).toContain(
      `the folder ${path} no longer exists, and what the run had saved there is lost`,
    );
    expect(lost.hint).not.toContain('--resume');
    createRun(path, request, 'train').lock.release();
    const partly = withResumption(path, 'train', failure) as MistletoeError;
    expect(partly.message).not.toContain('safe');
    expect(partly.hint).toContain(`--resume ${path}`);
  });

  it('is told apart from everything else', () => {
    for (const failure of [
      new MistletoeError('runtime', 'The loss became NaN.'),
      new MistletoeError('usage', 'No.', { cause: refusal }),
      new Error('a bug'),
    ])
      expect(withResumption('runs/train-1', 'train', failure)).toBe(failure);
  });
});
