/** `mistletoe train` with tiny models, for the tests of both tiers. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { run } from '../../src/cli/program.js';
import type { TrainingResult } from '../../src/train/train-run.js';
import type { FakeTerminalOptions } from '../support/fake-terminal.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import type { Outcome } from '../support/run-command.js';
import { TinyAudits } from '../support/tiny-audit.js';
import type { TinySizes } from '../support/tiny-checkpoints.js';

export type TrainOutcome = Outcome & { readonly folder: string };

const settings = [
  ...['--steps', '12', '--learning-rate', '0.01', '-n', '20', '--batch-tokens', '128'],
  ...['--validation', '0.2', '--validate-every', '4', '--save-every', '3', '--progress', 'none'],
];

export class TrainCommands {
  readonly models: TinyAudits;
  /** A question for each letter. */
  readonly data: string;

  constructor(sizes: TinySizes) {
    this.models = new TinyAudits(sizes);
    this.data = `${this.models.freshFolder()}.jsonl`;
    const letters = 'abcdefghijklmnopqrstuvwx';
    const prompts = Array.from(letters, (_, start) => `${letters}${letters}`.slice(start, start + 6));
    writeFileSync(this.data, prompts.map((prompt) => `${JSON.stringify({ prompt })}\n`).join(''));
  }

  /** The options that name the target. */
  get beside(): readonly string[] {
    const { targetFolder, cacheFolder } = this.models;
    return ['--target', targetFolder, '--cache-dir', cacheFolder, '--threads', '1', '--device', 'cpu'];
  }

  async run(argv: readonly string[], options: FakeTerminalOptions = {}): Promise<Outcome> {
    const terminal = createFakeTerminal(options);
    const code = await run([...argv], terminal);
    return { code, ...terminal.written };
  }

  async train(words: readonly string[], options: FakeTerminalOptions = {}): Promise<TrainOutcome> {
    const folder = this.models.freshFolder();
    const own = ['--data', this.data, '--out', folder, ...settings];
    return { folder, ...(await this.run(['train', ...this.beside, ...own, ...words], options)) };
  }

  resume(folder: string, more: readonly string[] = []): Promise<Outcome> {
    const words = ['--resume', folder, '--cache-dir', this.models.cacheFolder, '--progress', 'none'];
    return this.run(['train', ...words, ...more]);
  }

  /** A fresh drafter learns, loads, and drafts without changing an answer. */
  async expectToLearn(system: string, size: readonly string[] = []): Promise<void> {
    const { folder, code, err } = await this.train(['--system', system, ...size]);
    expect([code, err]).toEqual([0, '']);
    const result = readResult(folder);
    const losses = lossesOf(result);
    expect(losses).toHaveLength(12);
    expectFallingLoss(losses);
    expect(result.lengths?.best.length).toBeGreaterThanOrEqual(result.lengths!.first.length);
    const best = join(folder, 'best');
    const inspected = await this.run(['inspect', best, '--format', 'json']);
    expect(inspected.code).toBe(0);
    const words = [...this.beside, '--drafter', best, '-n', '8'];
    const [plain, drafted] = [
      await this.run(['generate', ...this.beside, '-n', '8', '--raw', '--prompt', 'abcdef']),
      await this.run(['generate', ...words, '--raw', '--prompt', 'abcdef']),
    ];
    expect([drafted.code, drafted.out]).toEqual([0, plain.out]);
    const prompts = `${this.models.freshFolder()}.txt`;
    writeFileSync(prompts, 'fedcba\n');
    const benched = await this.run([
      ...['bench', ...words, '-p', prompts, '--draft', 'chain:2', '--warmup', '0', '--progress', 'none'],
    ]);
    expect(benched.code).toBe(0);
    expect(benched.out).toContain('Every answer equals plain decoding’s, token for token.');
  }

  /** Interrupted at `moment`, a run saves, says how to resume, and ends like `whole`. */
  async expectToResume(words: readonly string[], whole: string, moment: RegExp): Promise<void> {
    let isOver = false;
    const stopped = await this.train(words, {
      onError(text, { interrupt }) {
        if (isOver || !moment.test(text)) return;
        isOver = true;
        interrupt();
      },
    });
    expect(stopped.code).toBe(130);
    expect(stopped.err).toContain('Saving what is done; Ctrl-C again stops at once.');
    expect(stopped.err).toMatch(
      new RegExp(
        `Interrupted; progress is saved. Resume with:\n {2}mistletoe train --resume ${stopped.folder}\n$`,
      ),
    );
    expect(existsSync(join(stopped.folder, 'result.json'))).toBe(false);
    expect((await this.resume(stopped.folder)).code).toBe(0);
    for (const name of ['best', 'last'])
      expect(readWeights(join(stopped.folder, name))).toEqual(readWeights(join(whole, name)));
    const log = (folder: string): string => readFileSync(join(folder, 'log.jsonl'), 'utf8');
    expect(log(stopped.folder)).toBe(log(whole));
  }

  async dispose(): Promise<void> {
    await this.models.dispose();
  }
}

export const readResult = (folder: string): TrainingResult =>
  JSON.parse(readFileSync(join(folder, 'result.json'), 'utf8')) as TrainingResult;

export const lossesOf = ({ log }: TrainingResult): number[] =>
  log.flatMap((line) => (line.kind === 'update' ? [line.loss] : []));

export function expectFallingLoss(losses: readonly number[]): void {
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  expect(mean(losses.slice(-3))).toBeLessThan(mean(losses.slice(0, 3)));
}

/** The weights of a drafter's folder, whatever its file is called. */
export function readWeights(folder: string): Buffer {
  const [file] = readdirSync(folder).filter((name) => /\.(safetensors|bin|pt)$/.test(name));
  return readFileSync(join(folder, file!));
}
