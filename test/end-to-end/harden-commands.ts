/** `mistletoe harden` of a tiny drafter, for the tests of both tiers. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { HardeningResult } from '../../src/train/harden/hardening-result.js';
import type { CommandRunner, Outcome } from '../support/run-command.js';
import { createRunner } from '../support/run-command.js';
import { TinyAudits } from '../support/tiny-audit.js';
import type { TinySizes } from '../support/tiny-checkpoints.js';

const settings = [
  ...['--rounds', '2', '--prompts-per-round', '2', '--suffixes-per-prompt', '2', '--search-steps', '2'],
  ...['--search-growth', '1.5', '--random-per-prompt', '1', '--spread', '2', '--steps-per-round', '4'],
  ...['--train-suffix-length', '4', '--train-suffix-length', '6'],
  ...['--learning-rate', '0.01', '--batch-tokens', '128', '-n', '16', '--validation', '0.2', '--chain', '3'],
  ...['--validate-every', '2', '--save-every', '2', '--preset', 'quick', '--suffix-length', '5'],
  ...['--audit-steps', '2', '--audit-new-tokens', '20', '--window', '8', '--shortest-answer', '8'],
  ...['--epsilon', '3', '--keep', 'distribution', '--starts', '2', '--finalists', '2', '--random-draws', '1'],
];

export type HardenOutcome = Outcome & { readonly folder: string };
export type Untimed = Omit<HardeningResult, 'times'>;

export class HardenCommands {
  readonly models: TinyAudits;
  readonly drafter: string;
  readonly harden: CommandRunner;
  private readonly data: string;
  private readonly prompts: string;

  constructor(
    sizes: TinySizes,
    variant: string,
    private readonly objectives: readonly string[],
  ) {
    this.models = new TinyAudits(sizes);
    this.harden = createRunner('harden', this.models.cacheFolder);
    this.drafter = this.models.writeDrafter(variant);
    this.data = `${this.freshFolder()}.jsonl`;
    this.prompts = `${this.freshFolder()}.txt`;
    const letters = 'abcdefghijklmnopqrstuvwx';
    const starts = Array.from({ length: 12 }, (_, index) => 2 * index);
    const asked = starts.map((start) => `${letters}${letters}`.slice(start, start + 6));
    writeFileSync(this.data, asked.map((prompt) => `${JSON.stringify({ prompt })}\n`).join(''));
    writeFileSync(this.prompts, 'abcdefgh\nhgfedcba\n');
  }

  freshFolder(): string {
    return this.models.freshFolder();
  }

  /** The options of a run, but for its folder. */
  get options(): readonly string[] {
    return [
      ...['--target', this.models.targetFolder, '--drafter', this.drafter, '--data', this.data],
      ...['--prompts', this.prompts, '--threads', '1', '--device', 'cpu', ...settings],
      ...this.objectives.flatMap((name) => ['--search-objective', name]),
    ];
  }

  begin(folder: string): readonly string[] {
    return [...this.options, '--out', folder];
  }

  async run(more: readonly string[] = []): Promise<HardenOutcome> {
    const folder = this.freshFolder();
    return { folder, ...(await this.harden([...this.begin(folder), ...more])) };
  }

  /** Interrupted once in each phase, a run says how to resume each time, and ends like `whole`. */
  async expectToResume(phases: readonly string[], whole: string, more: readonly string[]): Promise<void> {
    const folder = this.freshFolder();
    let words = [...this.begin(folder), ...more];
    for (const phase of phases) {
      let isDone = false;
      const { code, err } = await this.harden([...words, '--progress', 'plain'], {
        onError(text, { interrupt }) {
          if (isDone || !text.startsWith(`${phase}:`)) return;
          isDone = true;
          interrupt();
        },
      });
      expect(code).toBe(130);
      expect(err).toMatch(/Saving what is done; Ctrl-C again stops at once\.\n/);
      expect(err).toContain(
        `Interrupted; progress is saved. Resume with:\n  mistletoe harden --resume ${folder}\n`,
      );
      words = ['--resume', folder];
    }
    expect((await this.harden([...words, '--progress', 'none'])).code).toBe(0);
    // As text: the keys of a resumed run have the order of a whole one.
    expect(JSON.stringify(readResult(folder))).toBe(JSON.stringify(readResult(whole)));
  }

  dispose(): Promise<void> {
    return this.models.dispose();
  }
}

export function readResult(folder: string): Untimed {
  const result = JSON.parse(readFileSync(join(folder, 'result.json'), 'utf8')) as Partial<HardeningResult>;
  delete (result as { times?: unknown }).times;
  return result as Untimed;
}

export function readWeights(folder: string, role: string, round: number): Buffer {
  return readDrafter(join(folder, role, `round-${round}`, 'last'));
}

/** The weights in a drafter's folder, whatever their file is called. */
export function readDrafter(folder: string): Buffer {
  return readFileSync(
    join(
      folder,
      readdirSync(folder).find((name) => name.endsWith('.safetensors'))!,
    ),
  );
}
