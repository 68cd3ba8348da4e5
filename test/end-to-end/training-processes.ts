/** `mistletoe train` of a tiny EAGLE head in processes that tests stop, and what must be the same after they resume. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Ended, ProcessOptions } from '../support/killed-runs.js';
import { runProcess } from '../support/killed-runs.js';
import { createRunner } from '../support/run-command.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { shallow } from '../support/tiny-checkpoints.js';
import { transpileForTests } from '../support/transpiled-sources.js';

const letters = 'abcdefghijklmnopqrstuvwx';
const drafterFiles = ['config.json', 'model.safetensors'];
const weights = ['best', 'last', 'start'].flatMap((name) => drafterFiles.map((file) => join(name, file)));

export interface RunContents {
  readonly bytes: readonly string[];
  readonly answers: readonly string[];
  readonly names: readonly string[];
}

export function readRun(folder: string): RunContents {
  const read = (name: string): string => readFileSync(join(folder, name)).toString('latin1');
  return {
    bytes: [...weights, 'log.jsonl'].map(read),
    // Several conversations are answered at once, in no fixed order.
    answers: read('answers.jsonl').split('\n').sort(),
    names: readdirSync(folder).sort(),
  };
}

export class TrainingProcesses {
  private readonly sources = transpileForTests('train');
  private readonly models = new TinyAudits(shallow);
  private readonly data = join(this.sources.folder, 'data.jsonl');

  constructor() {
    const starts = Array.from({ length: 12 }, (_, index) => 2 * index);
    const prompts = starts.map((start) => `${letters}${letters}`.slice(start, start + 6));
    writeFileSync(this.data, prompts.map((prompt) => `${JSON.stringify({ prompt })}\n`).join(''));
  }

  freshFolder(): string {
    return this.models.freshFolder();
  }

  /** EAGLE draws new noise in every update; packed rows hold several texts; states are kept in the first epoch. */
  startWords(out: string): string[] {
    return [
      ...['--target', this.models.targetFolder, '--system', 'eagle', '--data', this.data, '--out', out],
      ...['--steps', '12', '--batch-tokens', '96', '-n', '20', '--learning-rate', '0.01'],
      ...['--temperature', '0.7', '--validation', '0.2', '--validate-every', '4', '--save-every', '3'],
      ...['--threads', '1', '--device', 'cpu', '--rows', 'packed', '--keep-states', '1MB'],
    ];
  }

  train(words: readonly string[], options: ProcessOptions = {}): Promise<Ended> {
    const command = [this.sources.main, 'train', ...words, '--cache-dir', this.models.cacheFolder];
    return runProcess(command, options);
  }

  /** The same in this process: what a run leaves that nothing stops. */
  async trainHere(words: (folder: string) => readonly string[]): Promise<RunContents> {
    const folder = this.freshFolder();
    const { code, err } = await createRunner('train', this.models.cacheFolder)(words(folder));
    if (code !== 0) throw new Error(err);
    return readRun(folder);
  }

  dispose(): Promise<void> {
    return this.models.dispose();
  }
}
