import type { Terminal } from './terminal.js';

/** What a command leaves behind: its terminal to write to, its exit code to set. */
export interface CommandContext {
  readonly terminal: Terminal;
  exitCode: number;
}
