/**
 * Every failure a user can cause is a MistletoeError: one sentence with what happened, the value seen and what was
 * expected, and a hint what to do next. Any other uncaught error is a bug.
 */
export type ErrorCode =
  | 'usage' // an option or argument is wrong
  | 'checkpoint' // a model folder or one of its files is wrong
  | 'shape' // a graph was built with shapes or types that do not fit
  | 'text' // tokenizer, template or prompt set
  | 'context' // the sequence does not fit the model's context
  | 'drafter' // a drafter does not fit its target, or misbehaves
  | 'incomplete' // the run ended without a usable result
  | 'network' // a server cannot be reached, or sent something unexpected
  | 'runtime'; // the numeric runtime failed

export interface ErrorDetails {
  readonly hint?: string | undefined;
  readonly cause?: unknown;
}

/** Values from files may be of any length; a message quotes both ends of a long one. */
const maxMessageLength = 1500;

function shorten(message: string): string {
  if (message.length <= maxMessageLength) return message;
  const half = maxMessageLength / 2;
  // Without halves of surrogate pairs at the cut.
  const start = message.slice(0, half).replace(/[\ud800-\udbff]$/, '');
  const end = message.slice(-half).replace(/^[\udc00-\udfff]/, '');
  return `${start} … ${end}`;
}

export class MistletoeError extends Error {
  readonly code: ErrorCode;
  readonly hint: string | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(shorten(message), details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'MistletoeError';
    this.code = code;
    this.hint = details.hint;
  }
}

/** ENOSPC and the like; undefined for errors that are not from the operating system. */
export function codeOf(cause: unknown): string | undefined {
  if (cause instanceof MistletoeError || !(cause instanceof Error) || !('code' in cause)) return undefined;
  return typeof cause.code === 'string' ? cause.code : undefined;
}

export function describeCause(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  // Node's message repeats the path and names a system call.
  return codeOf(cause) === 'ENOENT' ? 'no such file or directory' : cause.message;
}

/** fetch throws "fetch failed" with the reason as its cause, one per address that was tried. */
export function describeFetchFailure(cause: unknown): string {
  const reason = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause;
  const [first = reason] = reason instanceof AggregateError ? (reason.errors as unknown[]) : [];
  return describeCause(first);
}
