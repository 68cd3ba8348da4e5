/** Shared by commands with long runs: Ctrl-C saves, and runs resume with their original settings. */
import { basename, extname, isAbsolute, relative } from 'node:path';
import { MistletoeError } from '../core/errors.js';
import { quoteWord } from '../core/display-paths.js';
import { largest, pushAll } from '../core/long-lists.js';
import { bundledPrompts } from '../decode/bundled-models.js';
import type { Prompt } from '../text/prompts/prompt-set.js';
import { loadPrompts, promptSetFiles } from '../text/prompts/prompt-set.js';
import type { Invocation } from './command.js';
import type { Progress } from './progress.js';
import type { Colors, Terminal } from './terminal.js';
import { colorsFor } from './terminal.js';

/** Runs until it ends or Ctrl-C aborts it; a second Ctrl-C kills the process. `ending` says what it does meanwhile. */
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

/** Also returns the target, which a resumed run reads from its folder. */
export async function followRun<
  Outcome,
  Events extends { onOpen?(run: OpenedRun): void },
>(
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
  return `Interrupted; progress is saved. Resume with:\n  mistletoe ${command} --resume ${quoteWord(folder)}\n`;
}

/** A result in the form that --format names; only that form is made. */
export function printResult(
  format: 'text' | 'json' | 'markdown',
  terminal: Terminal,
  forms: { text(colors: Colors): string; json(): string; markdown(): string },
): void {
  const { stdout } = terminal;
  if (format === 'json') stdout.writeData(forms.json());
  else stdout.write(format === 'text' ? forms.text(colorsFor(stdout, terminal)) : forms.markdown());
}

/** `allowed` and `names`: what may be combined with --resume. */
export function refuseChanges(
  { allowOnly }: Invocation,
  allowed: readonly string[],
  names = '--progress, --format, --cache-dir and --verify-cache',
): void {
  allowOnly(
    allowed,
    (flag) =>
      new MistletoeError('usage', `${flag} cannot be changed when a run is resumed.`, {
        hint: `Leave it out; ${names} may be given.`,
      }),
  );
}

/** `sources`: files or names of known sets; the bundled set if empty. */
export async function readPromptSets(
  sources: readonly string[],
  { promptsDir, limit }: { readonly promptsDir: string | undefined; readonly limit: number | undefined },
): Promise<readonly Prompt[]> {
  const read: Prompt[] = [];
  for (const source of sources.length === 0 ? [bundledPrompts] : sources) {
    checkPromptSource(source);
    const loaded = await loadPrompts(source, promptsDir === undefined ? {} : { folder: promptsDir });
    // Sets number their prompts alike, so ids of several sets start with the name of the set.
    const prefix = sources.length < 2 ? '' : `${basename(source, extname(source))}-`;
    pushAll(
      read,
      loaded.slice(0, limit).map((prompt) => ({ ...prompt, id: `${prefix}${prompt.id}` })),
    );
  }
  return read;
}

export function checkPromptSource(source: string): void {
  if (Object.hasOwn(promptSetFiles, source) || /\.(jsonl|txt)$/.test(source)) return;
  throw new MistletoeError(
    'usage',
    `--prompts is ${source}; a .jsonl or .txt file, or one of ${Object.keys(promptSetFiles).join(', ')} was expected.`,
    { hint: 'Known sets are read from --prompts-dir; --prompt takes a single prompt as text.' },
  );
}

export function requireData(data: string | undefined): string {
  if (data !== undefined) return data;
  throw new MistletoeError('usage', '--data was not given, so there is nothing to train on.', {
    hint: 'Give a file with one conversation a line; questions without answers are enough.',
  });
}

/** Commands to try with a new drafter; `target` is undefined for the bundled one. */
export function describeNext(drafter: string, target: string | undefined): string[] {
  const words = `${target === undefined ? '' : `--target ${quoteWord(target)} `}--drafter ${quoteWord(drafter)}`;
  return ['Next:', `  mistletoe bench ${words}`, `  mistletoe audit ${words}`];
}

/** A table in a terminal: the first columns are left-aligned, the others right-aligned. */
export function alignRows(rows: readonly (readonly string[])[], leftColumns = 1): string[] {
  const widths = (rows[0] ?? []).map((_, column) => largest(rows.map((row) => row[column]!.length)));
  return rows.map((row) =>
    row
      .map((cell, column) =>
        column < leftColumns ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!),
      )
      .join('  ')
      .trimEnd(),
  );
}

/** The path as one would type it in the current folder. */
export function typedPath(path: string): string {
  const inside = relative('.', path);
  return inside === '' || inside.startsWith('..') || isAbsolute(inside) ? path : inside;
}
