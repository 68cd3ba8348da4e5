/** What a pool and its worker processes say to each other. Both are of this machine and this version. */
import type { ErrorCode } from '../core/errors.js';
import { MistletoeError } from '../core/errors.js';
import type { UnitPart } from './unit.js';

export type PoolMessage =
  | { readonly kind: 'setup'; readonly setup: unknown }
  | { readonly kind: 'ask'; readonly question: unknown }
  | { readonly kind: 'run'; readonly input: unknown; readonly done: readonly string[] };

export type WorkerMessage =
  | { readonly kind: 'part'; readonly part: UnitPart }
  | { readonly kind: 'progress'; readonly progress: unknown }
  | { readonly kind: 'notice'; readonly message: string }
  | { readonly kind: 'done'; readonly answer?: unknown }
  | { readonly kind: 'failed'; readonly error: SentError; readonly isOfSetup: boolean };

export interface SentError {
  readonly message: string;
  /** Absent for errors that are bugs. */
  readonly code?: ErrorCode | undefined;
  readonly hint?: string | undefined;
}

export function packError(cause: unknown): SentError {
  if (cause instanceof MistletoeError) return { message: cause.message, code: cause.code, hint: cause.hint };
  return { message: cause instanceof Error ? cause.message : String(cause) };
}

export function unpackError({ message, code, hint }: SentError): Error {
  if (code === undefined) return new Error(message);
  return new MistletoeError(code, message, hint === undefined ? {} : { hint });
}
