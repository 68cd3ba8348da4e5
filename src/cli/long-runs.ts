/** Shared by commands that run long: Ctrl-C saves, and runs resume with their original settings. */
import { isAbsolute, relative } from 'node:path';
import { MistletoeError } from '../core/errors.js';
import { quoteWord } from '../core/files.js';
import { bundledTarget } from '../core/package-files.js';
import type { RunOptions } from '../train/training-run.js';
import type { Invocation } from './command.js';
import type { MachineFlags, progressFlag, reportFormatFlag, runFlags } from './common-flags.js';
import { cacheOf, resumable } from './common-flags.js';
import { exitCodes } from './failure.js';
import type { FlagsOf } from './flags.js';
import { type Progress, createProgress } from './progress.js';
import { type Colors, type StopSignal, type Terminal, asOneLine, colorsFor } from './terminal.js';

/** Runs until it ends or Ctrl-C aborts it; a second Ctrl-C kills the process. */
export async function runInterruptibly<Outcome>(
  terminal: Terminal,
  run: (signal: AbortSignal) => Promise<Outcome>,
  onInterrupt?: (signal: StopSignal) => void,
): Promise<Outcome> {
  const abort = new AbortController();
  const stopListening = terminal.onInterrupt((signal) => {
    onInterrupt?.(signal);
    abort.abort();
  });
  return run(abort.signal).finally(stopListening);
}

/** `ending` says what the run does after Ctrl-C. */
export function runWithProgress<Outcome>(
  terminal: Terminal,
  progress: Progress,
  ending: string,
  run: (signal: AbortSignal) => Promise<Outcome>,
): Promise<Outcome> {
  return runInterruptibly(terminal, run, (signal) => {
    const again = signal === 'SIGINT' ? 'Ctrl-C again' : `another ${signal}`;
    progress.note(`${ending}; ${again} stops at once.`);
  }).finally(() => {
    progress.finish();
  });
}

interface ServerEvents {
  readonly ended?: Promise<Error | undefined>;
  /** With it, SIGHUP does not end the server. */
  readonly onHangup?: (() => Promise<void>) | undefined;
}

/** Until an interrupt, or until nobody reads the output, or the server has ended. Returns what ended it, if that failed. */
export function waitForEnd(
  terminal: Terminal,
  { ended, onHangup }: ServerEvents,
): Promise<Error | undefined> {
  const { closed } = terminal;
  return new Promise((resolve) => {
    let stop: (() => void) | undefined;
    const end = (fault?: Error): void => {
      stop?.();
      resolve(fault);
    };
    const listen = (): void => {
      stop = terminal.onInterrupt((signal) => {
        if (signal !== 'SIGHUP' || onHangup === undefined) {
          end();
          return;
        }
        listen();
        void onHangup();
      });
    };
    listen();
    void ended?.then(end);
    if (closed.aborted) end();
    closed.addEventListener('abort', () => {
      end();
    });
  });
}

interface OpenedRun {
  readonly request: { readonly targetFolder: string };
}

type RunFlags = Pick<MachineFlags, 'cacheFolder' | 'verifyCache'> &
  FlagsOf<typeof runFlags & typeof progressFlag & typeof reportFormatFlag>;

/** `train` and `harden`: how they start, resume and end. */
interface FolderRun<Events, Outcome> {
  readonly command: 'train' | 'harden';
  /** Flags that may be given with --resume, beside those of all runs. */
  readonly resumable?: readonly string[];
  createEvents(progress: Progress): Events;
  /** Checks the flags and reads what they name. */
  prepare(onNotice: (message: string) => void): Promise<(options: RunOptions<Events>) => Promise<Outcome>>;
  resume(folder: string, options: RunOptions<Events>): Promise<Outcome>;
  /** Writes the reports. `target` is undefined for the bundled one. */
  finish(
    outcome: Exclude<Outcome, { status: 'interrupted' }>,
    target: string | undefined,
  ): Promise<ResultForms & { readonly exitCode: number }>;
}

/** Starts or resumes a run, follows it, and prints its result. */
export async function runInFolder<
  Events extends { onOpen?(run: OpenedRun): void },
  Outcome extends { readonly status: 'complete' | 'interrupted'; readonly folder: string },
>(flags: RunFlags, invocation: Invocation, run: FolderRun<Events, Outcome>): Promise<number> {
  const { terminal } = invocation;
  const { resume } = flags;
  const progress = createProgress(flags.progress, terminal.stderr);
  if (resume !== undefined) refuseChanges(invocation, [...resumable, ...(run.resumable ?? [])]);
  const start =
    resume === undefined
      ? await run.prepare(progress.note)
      : (options: RunOptions<Events>) => run.resume(resume, options);
  const events = run.createEvents(progress);
  // A resumed run reads its target from its folder.
  let target: string = bundledTarget;
  const onOpen = (opened: OpenedRun): void => {
    target = opened.request.targetFolder;
    events.onOpen?.(opened);
  };
  // Until here Ctrl-C kills the process: there is nothing to save yet.
  const outcome = await runWithProgress(terminal, progress, 'Saving what is done', (signal) =>
    start({ events: { ...events, onOpen }, signal, ...cacheOf(flags) }),
  );
  if (outcome.status === 'interrupted') {
    terminal.stderr.write(
      `Interrupted; progress is saved. Resume with:\n  mistletoe ${run.command} --resume ${quoteWord(outcome.folder)}\n`,
    );
    return exitCodes.interrupted;
  }
  const { exitCode, ...forms } = await run.finish(
    outcome as Exclude<Outcome, { status: 'interrupted' }>,
    target === bundledTarget ? undefined : typedPath(target),
  );
  printResult(flags.format, terminal, forms);
  return exitCode;
}

export interface ResultForms {
  readonly text: (colors: Colors) => string;
  /** A value, or its text. */
  readonly json: () => object | string;
  readonly markdown?: () => string;
}

/** A result in the form that --format names; only that form is made. */
export function printResult(
  format: 'text' | 'json' | 'markdown',
  terminal: Terminal,
  { text, json, markdown }: ResultForms,
): void {
  const { stdout } = terminal;
  if (format === 'json') {
    const value = json();
    stdout.writeData(typeof value === 'string' ? value : `${JSON.stringify(value, undefined, 2)}\n`);
  } else stdout.write(format === 'markdown' ? markdown!() : text(colorsFor(stdout, terminal)));
}

export type Fact = readonly [label: string, value: string];

/** One line for each, with the values below each other. */
export function formatFacts(facts: readonly Fact[], colors: Colors): string[] {
  const width = Math.max(...facts.map(([label]) => label.length)) + 2;
  return facts.map(([label, value]) => colors.dim(label.padEnd(width)) + asOneLine(value));
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

/** For a terminal: a name with a line feed must not start a new line. */
export const joinLines = (lines: readonly string[]): string =>
  `${lines.map((line) => line.replace(/[\r\n]/g, ' ')).join('\n')}\n`;

/** The path as one would type it in the current folder. */
export function typedPath(path: string): string {
  const inside = relative('.', path);
  return inside === '' || inside.startsWith('..') || isAbsolute(inside) ? path : inside;
}
