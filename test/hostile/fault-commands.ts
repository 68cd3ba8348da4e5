/** Commands over a tiny target and a drafter, for the tests of faults in both tiers. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { afterAll, beforeAll } from 'vitest';
import { run } from '../../src/cli/program.js';
import type { FakeTerminalOptions } from '../support/fake-terminal.js';
import { createFakeTerminal } from '../support/fake-terminal.js';
import { TinyAudits } from '../support/tiny-audit.js';
import { transpileForTests } from '../support/transpiled-sources.js';

/** ENOSPC on stdout. */
export const fullDiskMessage = /(^|\n)error: stdout cannot be written: ENOSPC: [^\n]*\nhint: {2}[^\n]*\n$/;

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
}
