/** A command of the CLI in this process, with what it wrote. */
import { run } from '../../src/cli/program.js';
import type { FakeTerminalOptions } from './fake-terminal.js';
import { createFakeTerminal } from './fake-terminal.js';

export interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export type CommandRunner = (argv: readonly string[], options?: FakeTerminalOptions) => Promise<Outcome>;

export function createRunner(command: string, cacheFolder: string): CommandRunner {
  return async (argv, options = {}) => {
    const terminal = createFakeTerminal(options);
    const code = await run([command, '--cache-dir', cacheFolder, ...argv], terminal);
    return { code, ...terminal.written };
  };
}
