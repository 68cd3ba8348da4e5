/** What commands with long runs have in common: Ctrl-C that saves, and runs that are resumed as they were begun. */
import type { Command } from 'commander';
import { MistletoeError } from '../core/errors.js';
import { quoteWord } from '../core/shown-words.js';
import type { Progress } from './progress.js';
import type { Terminal } from './terminal.js';

/** Runs until it ends or Ctrl-C aborts it; a second Ctrl-C ends the process. */
export async function runInterruptibly<Outcome>(
  terminal: Terminal,
  progress: Progress,
  run: (signal: AbortSignal) => Promise<Outcome>,
): Promise<Outcome> {
  const abort = new AbortController();
  const stopListening = terminal.onInterrupt((signal) => {
    const again = signal === 'SIGINT' ? 'Ctrl-C again' : `another ${signal}`;
    progress.note(`Saving what is done; ${again} stops at once.`);
    abort.abort();
  });
  try {
    return await run(abort.signal);
  } finally {
    stopListening();
    progress.finish();
  }
}

export function describeInterruption(command: string, folder: string): string {
  return `Interrupted; what was done is saved. Go on with:\n  mistletoe ${command} --resume ${quoteWord(folder)}\n`;
}

/** The first option that was given and cannot stand beside --resume. */
export function findStray(command: Command, resumable: readonly string[]): string | undefined {
  const isGiven = (name: string): boolean => command.getOptionValueSource(name) === 'cli';
  const names = command.options.filter((option) => isGiven(option.attributeName()));
  return names.find((option) => !resumable.includes(option.attributeName()))?.long ?? undefined;
}

export function refuseStray(stray: string | undefined): void {
  if (stray === undefined) return;
  throw new MistletoeError('usage', `${stray} cannot be changed when a run is resumed.`, {
    hint: 'Leave it out; --progress, --format, --cache-dir and --verify-cache may be given.',
  });
}

export function requireData(data: string | undefined): string {
  if (data !== undefined) return data;
  throw new MistletoeError('usage', 'There is nothing to train on: --data was not given.', {
    hint: 'Give a file with one conversation a line; questions alone will do.',
  });
}

/** Columns of a table in a terminal: the first to the left, the others to the right. */
export function alignRows(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
      .join('  '),
  );
}
