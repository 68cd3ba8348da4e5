/** What a failure looks like and which exit code it has; one place for both. */
import { CommanderError } from 'commander';
import { MistletoeError, type ErrorCode } from '../core/errors.js';
import { asOneLine } from './clean-text.js';
import { describeSystemFailure } from './system-failure.js';
import type { StopSignal, Terminal } from './terminal.js';
import { colorsFor } from './terminal.js';

export const exitCodes = {
  success: 0,
  failure: 1,
  badInput: 2,
  incomplete: 3,
  interrupted: 130,
} as const;

/** As shells have it: 128 and the signal's number. */
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
  const report = describeFailure(failure);
  const colors = colorsFor(stderr, terminal);
  stderr.write(`${colors.red('error:')} ${closeSentence(report.sentence)}\n`);
  if (report.hint !== undefined && report.hint !== '') {
    stderr.write(`${colors.cyan('hint:')}  ${closeSentence(report.hint)}\n`);
  }
  const isDebugging = environment.MISTLETOE_DEBUG !== undefined && environment.MISTLETOE_DEBUG !== '';
  if (isDebugging && failure instanceof Error) stderr.write(`${stacksOf(failure)}\n`);
  return report.exitCode;
}

function describeFailure(failure: unknown): Report {
  if (failure instanceof CommanderError) return describeUsage(failure);
  if (failure instanceof MistletoeError) {
    const { message, hint, code } = failure;
    return { sentence: message, hint, exitCode: codeOf[code] ?? exitCodes.badInput };
  }
  const system = describeSystemFailure(failure);
  if (system !== undefined) {
    const { sentence, hint, isOfMachine } = system;
    return { sentence, hint, exitCode: isOfMachine ? exitCodes.failure : exitCodes.badInput };
  }
  const seen = failure instanceof Error ? `${failure.name}: ${failure.message}` : String(failure);
  return {
    sentence: `Something unforeseen went wrong (${seen}); this is a bug in Mistletoe.`,
    hint: 'Please report it with the command you ran; MISTLETOE_DEBUG=1 adds the details.',
    exitCode: exitCodes.failure,
  };
}

/** Commander writes "error: what is wrong" and sometimes "(Did you mean X?)" on a line of its own. */
function describeUsage({ message }: CommanderError): Report {
  const [first = '', ...rest] = message
    .replace(/^error: /, '')
    .replace(/(?<=is invalid|'[\w-]+')\. (?=Expected|Allowed)/, '; ')
    .replace(/; [EA]/, (join) => join.toLowerCase())
    .split('\n');
  const suggestion = rest.join(' ').replace(/^\(|\)$/g, '');
  return {
    sentence: first.charAt(0).toUpperCase() + first.slice(1),
    hint: suggestion === '' ? 'Add --help to see what is there.' : suggestion,
    exitCode: exitCodes.badInput,
  };
}

/** One line with a full stop. */
export function closeSentence(text: string): string {
  const line = asOneLine(text).trim();
  return /[.?!)]$/.test(line) ? line : `${line}.`;
}

function stacksOf(failure: Error): string {
  const own = failure.stack ?? failure.message;
  return failure.cause instanceof Error ? `${own}\ncaused by ${stacksOf(failure.cause)}` : own;
}
