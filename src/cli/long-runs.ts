/** What commands with long runs have in common: Ctrl-C that saves, and runs that are resumed as they were begun. */
import type { Command } from 'commander';
import { Option } from 'commander';
import { MistletoeError } from '../core/errors.js';
import { quoteWord } from '../core/display-paths.js';
import { largest } from '../core/long-lists.js';
import type { Progress } from './progress.js';
import type { Terminal } from './terminal.js';

/** Runs until it ends or Ctrl-C aborts it; a second Ctrl-C ends the process. `ending`: what it does meanwhile. */
export async function runInterruptibly<Outcome>(
  terminal: Terminal,
  progress: Progress,
  ending: string,
  run: (signal: AbortSignal) => Promise<Outcome>,
): Promise<Outcome> {
  const abort = new AbortController();
  const stopListening = terminal.onInterrupt((signal) => {
    const again = signal === 'SIGINT' ? 'Ctrl-C again' : `another ${signal}`;
    progress.note(`${ending}; ${again} stops at once.`);
    abort.abort();
  });
  try {
    return await run(abort.signal);
  } finally {
    stopListening();
    progress.finish();
  }
}

interface OpenedRun {
  readonly request: { readonly targetFolder: string };
}

/** Runs what saves when it is interrupted, and tells its target, which a resumed run has from its folder. */
export async function followRun<Outcome, Events extends { onOpen?(run: OpenedRun): void }>(
  terminal: Terminal,
  progress: Progress,
  events: Events,
  start: (options: { readonly events: Events; readonly signal: AbortSignal }) => Promise<Outcome>,
): Promise<{ readonly outcome: Outcome; readonly targetFolder: string | undefined }> {
  let targetFolder: string | undefined;
  const onOpen = (run: OpenedRun): void => {
    ({ targetFolder } = run.request);
    events.onOpen?.(run);
  };
  const outcome = await runInterruptibly(terminal, progress, 'Saving what is done', (signal) =>
    start({ events: { ...events, onOpen }, signal }),
  );
  return { outcome, targetFolder };
}

export function describeInterruption(command: string, folder: string): string {
  return `Interrupted; what was done is saved. Go on with:\n  mistletoe ${command} --resume ${quoteWord(folder)}\n`;
}

/** Whether the user typed it; a default does not count. */
export const isGiven = (command: Command, attribute: string): boolean =>
  command.getOptionValueSource(attribute) === 'cli';

export const listGiven = (command: Command): Option[] =>
  command.options.filter((option) => isGiven(command, option.attributeName()));

/** The first option that was given and is none of the allowed ones. */
export function findStray(command: Command, allowed: readonly string[]): string | undefined {
  return listGiven(command).find((option) => !allowed.includes(option.attributeName()))?.long ?? undefined;
}

/** `allowed`: in words, what may stand beside --resume. */
export function refuseStray(
  stray: string | undefined,
  allowed = '--progress, --format, --cache-dir and --verify-cache',
): void {
  if (stray === undefined) return;
  throw new MistletoeError('usage', `${stray} cannot be changed when a run is resumed.`, {
    hint: `Leave it out; ${allowed} may be given.`,
  });
}

export const createFormatOption = (): Option =>
  new Option('--format <format>', 'of what is printed on stdout; the reports are files of the run')
    .choices(['text', 'json', 'markdown'])
    .default('text');

export function requireData(data: string | undefined): string {
  if (data !== undefined) return data;
  throw new MistletoeError('usage', 'There is nothing to train on: --data was not given.', {
    hint: 'Give a file with one conversation a line; questions alone will do.',
  });
}

/** What to do with a drafter that was made: `target` is left out where it is the bundled one. */
export function describeNext(drafter: string, target: string | undefined): string[] {
  const words = `${target === undefined ? '' : `--target ${quoteWord(target)} `}--drafter ${quoteWord(drafter)}`;
  return ['Next:', `  mistletoe bench ${words}`, `  mistletoe audit ${words}`];
}

/** Columns of a table in a terminal: the first to the left, the others to the right. */
export function alignRows(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => largest(rows.map((row) => row[column]!.length)));
  return rows.map((row) =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
      .join('  '),
  );
}
