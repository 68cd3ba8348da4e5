/** How failures are printed, and their exit codes. */
import { inspect } from 'node:util';
import { CommanderError } from 'commander';
import { MistletoeError, type ErrorCode } from '../core/errors.js';
import { asOneLine, colorsFor, type StopSignal, type Terminal } from './terminal.js';

export const exitCodes = { success: 0, failure: 1, badInput: 2, incomplete: 3, interrupted: 130 } as const;

/** The shells' convention: 128 plus the signal's number. */
export const signalCodes: Readonly<Record<StopSignal, number>> = {
  SIGINT: exitCodes.interrupted,
  SIGTERM: 143,
  SIGHUP: 129,
};

const codeOf: Readonly<Partial<Record<ErrorCode, number>>> = {
  runtime: exitCodes.failure,
  network: exitCodes.failure,
  incomplete: exitCodes.incomplete,
};

interface Report {
  readonly sentence: string;
  readonly hint?: string | undefined;
  readonly exitCode: number;
}

/** Prints the failure as one sentence and a hint, and returns the exit code. */
export function reportFailure(failure: unknown, terminal: Terminal): number {
  const { stderr, environment } = terminal;
  const { sentence, hint = '', exitCode } = describeFailure(failure);
  const colors = colorsFor(stderr, terminal);
  stderr.write(`${colors.red('error:')} ${closeSentence(sentence)}\n`);
  if (hint !== '') stderr.write(`${colors.cyan('hint:')}  ${closeSentence(hint)}\n`);
  const isDebugging = (environment.MISTLETOE_DEBUG ?? '') !== '';
  if (isDebugging && failure instanceof Error) stderr.write(`${inspect(failure, { colors: false })}\n`);
  return exitCode;
}

function describeFailure(failure: unknown): Report {
  if (failure instanceof CommanderError) return describeUsage(failure);
  if (failure instanceof MistletoeError) {
    const { message, hint, code } = failure;
    return { sentence: message, hint, exitCode: codeOf[code] ?? exitCodes.badInput };
  }
  if (isSystemFailure(failure)) return describeSystemFailure(failure);
  const seen = failure instanceof Error ? `${failure.name}: ${failure.message}` : String(failure);
  return {
    sentence: `An unexpected error occurred (${seen}); this is a bug in Mistletoe.`,
    hint: 'Please report it with the command you ran; MISTLETOE_DEBUG=1 adds the details.',
    exitCode: exitCodes.failure,
  };
}

/** Commander writes "error: ", a sentence in lower case, and perhaps "(Did you mean ...?)" on the next line. */
function describeUsage({ message }: CommanderError): Report {
  const [first = '', suggestion] = message
    .replace(/^error: /, '')
    .replace(/(?<=is invalid|'[\w-]+')\. (?=Expected|Allowed)/, '; ')
    .replace(/; [EA]/, (join) => join.toLowerCase())
    .split('\n');
  return {
    sentence: first.charAt(0).toUpperCase() + first.slice(1),
    hint: suggestion?.replace(/^\(|\)$/g, '') ?? 'Add --help to see the flags and arguments.',
    exitCode: exitCodes.badInput,
  };
}

/** One line that ends with a period. */
export function closeSentence(text: string): string {
  const line = asOneLine(text).trim();
  return /[.?!)]$/.test(line) ? line : `${line}.`;
}

const hints: Readonly<Record<string, string>> = {
  ENOTDIR: 'A part of the path is a file, but a folder was expected.',
  EISDIR: 'It is a folder, but a file was expected.',
  EEXIST: 'Remove it, or use another path.',
  EACCES: 'Check its permissions, or use another path.',
  EPERM: 'Check its permissions, or use another path.',
  EROFS: 'Use a path on a disk that can be written.',
};
/** The machine is the cause, not the user's input. */
const machineHints: Readonly<Record<string, string>> = {
  ENOSPC: 'Free some disk space.',
  EDQUOT: 'Free some space in your quota.',
  EMFILE: 'Close other programs, or raise the limit of open files (ulimit -n).',
  ENFILE: 'Close other programs: the machine has no free file handles.',
  ENOMEM: 'Close other programs, or use a machine with more memory.',
  EAGAIN: 'Close other programs: the machine cannot start more processes.',
  EIO: 'Check the disk, or the connection to it.',
};

const isSystemFailure = (failure: unknown): failure is NodeJS.ErrnoException =>
  failure instanceof Error &&
  'syscall' in failure &&
  'code' in failure &&
  /^E[A-Z0-9]+$/.test(String(failure.code));

/** An error of the operating system, as "EACCES: permission denied, open '/a/file'". */
function describeSystemFailure({ code = '', syscall = '', path, message }: NodeJS.ErrnoException): Report {
  const [, words = message] = /^\w+: (.*?), /s.exec(message) ?? [];
  const machineHint = machineHints[code];
  const what = path === undefined ? `The system call ${syscall} failed` : `${path} cannot be used`;
  return {
    sentence: code === 'ENOENT' && path !== undefined ? `${path} does not exist.` : `${what}: ${words}.`,
    hint: machineHint ?? hints[code] ?? 'Check the path.',
    exitCode: machineHint === undefined ? exitCodes.badInput : exitCodes.failure,
  };
}
