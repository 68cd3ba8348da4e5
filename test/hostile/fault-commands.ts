/** Commands over a tiny target and a drafter, for the tests of faults in both tiers. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { afterAll, beforeAll, expect } from 'vitest';
import { run } from '../../src/cli/program.js';
import type { FakeTerminalOptions } from '../support/fake-terminal.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { decoderTensors, llamaConfig, tiny, writeCheckpoint, writeLetterTokenizer } from '../support/tiny-checkpoints.js'; // prettier-ignore
import { transpileForTests } from '../support/transpiled-sources.js';

/** ENOSPC on stdout. */
export const fullDiskMessage = /(^|\n)error: stdout cannot be written: ENOSPC: [^\n]*\nhint: {2}[^\n]*\n$/;

const architectures = [5, true, '', {}, [5], [null], [{}], [['LlamaForCausalLM']], [[[[]]]], ['__proto__']];
const vocabularies = [2 ** 53 - 1, 2 ** 53, 1e308, 0, -1, 1.5, '32', [1], {}];
const sizes = ['hidden_size', 'num_attention_heads', 'num_key_value_heads', 'num_hidden_layers', 'intermediate_size', 'head_dim']; // prettier-ignore

/** Keys of config.json with values that no target has. */
export const oddConfigs: readonly (readonly [key: string, value: unknown])[] = [
  ...architectures.map((value) => ['architectures', value] as const),
  ...vocabularies.map((value) => ['vocab_size', value] as const),
  ...sizes.flatMap((key) => [2 ** 53 - 1, -1, 1.5].map((value) => [key, value] as const)),
];

const ownFault = /bug in Mistletoe|fault of the program|\n +at /;

export class FaultCommands {
  readonly audits = new TinyAudits();
  readonly main = transpileForTests('faults').main;
  readonly common = ['--target', this.audits.targetFolder, '--cache-dir', this.audits.cacheFolder];
  private drafter = '';

  /** For the top level of a test file. */
  constructor() {
    beforeAll(() => {
      this.drafter = this.audits.writeDrafter('EAGLE-3 with d2t');
    });
    afterAll(() => this.audits.dispose());
  }

  audit(...more: readonly string[]): string[] {
    return [
      ...['audit', ...this.common, '--drafter', this.drafter, '--prompt', 'abcdefgh', '--draft', 'chain:3'],
      ...['--raw', '--threads', '1', '--preset', 'quick', '--keep', 'distribution', '--suffix-length', '5'],
      ...['--window', '8', '--max-new-tokens', '20', '--epsilon', '3', '--shortest-answer', '8'],
      ...['--steps', '1', '--candidates', '8', '--starts', '1', '--progress', 'none', ...more],
    ];
  }

  bench(...more: readonly string[]): string[] {
    const brief = ['--limit', '1', '-n', '4', '--warmup', '0', '--progress', 'none'];
    return ['bench', ...this.common, '-d', this.drafter, ...brief, ...more];
  }

  generate(...more: readonly string[]): string[] {
    return ['generate', ...this.common, '--prompt', 'abc', '-n', '4', '--raw', ...more];
  }

  async runHere(argv: readonly string[], options?: FakeTerminalOptions) {
    const terminal = createFakeTerminal(options);
    return { code: await run(argv, terminal), ...terminal.written };
  }

  /** A process whose stdout or stderr is a full disk; `said` is what it writes to the other one. */
  async runOnFullDisk(argv: readonly string[], full: 'stdout' | 'stderr') {
    const disk = openSync('/dev/full', 'w');
    const child = spawn(process.execPath, [this.main, ...argv], {
      stdio: ['ignore', full === 'stdout' ? disk : 'pipe', full === 'stderr' ? disk : 'pipe'],
    });
    closeSync(disk);
    let said = '';
    (full === 'stdout' ? child.stderr : child.stdout)?.on('data', (chunk: Buffer) => (said += String(chunk)));
    const [code] = (await once(child, 'close')) as [number | null];
    return { code, said };
  }

  /** Commands that read a target with this value in its config.json succeed, or fail with one sentence. */
  async expectWords(key: string, value: unknown): Promise<void> {
    const folder = this.audits.freshFolder();
    const config = { ...llamaConfig(tiny), [key]: value };
    writeCheckpoint(folder, 'model.safetensors', decoderTensors(tiny), config);
    writeLetterTokenizer(folder, tiny, {});
    const brief = ['--prompt', 'abc', '-n', '2', '--raw'];
    for (const argv of [
      ['inspect', folder],
      ['generate', '--target', folder, '--cache-dir', this.audits.cacheFolder, ...brief],
      ['generate', ...this.common, '--drafter', folder, ...brief],
    ]) {
      const { code, out, err } = await this.runHere(argv);
      expect(`${out}${err}`).not.toMatch(ownFault);
      expect([0, 2]).toContain(code);
      if (code === 2 && argv[0] === 'generate') expect(err).toMatch(/^error: [^\n]*\n(hint: {2}[^\n]*\n)?$/);
    }
  }
}
