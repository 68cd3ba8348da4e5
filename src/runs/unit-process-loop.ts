/** The worker's side of a pool: takes one task at a time until its parent is gone. */
import { type ErrorCode, MistletoeError } from '../core/errors.js';
import type { UnitPart } from './unit.js';

// What a pool and its worker processes say to each other. Both are of this machine and this version.
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

function packError(cause: unknown): SentError {
  if (cause instanceof MistletoeError) return { message: cause.message, code: cause.code, hint: cause.hint };
  return { message: cause instanceof Error ? cause.message : String(cause) };
}

export function unpackError({ message, code, hint }: SentError): Error {
  if (code === undefined) return new Error(message);
  return new MistletoeError(code, message, hint === undefined ? {} : { hint });
}

export interface ProcessHooks {
  onPart(part: UnitPart): void;
  onProgress(progress: unknown): void;
  onNotice(message: string): void;
}

export interface ProcessWork {
  /** Opens what the unit needs; a failure is one of this worker, not of the unit. */
  prepare(input: unknown): Promise<void>;
  run(input: unknown, done: ReadonlySet<string>, hooks: ProcessHooks): Promise<void>;
  ask(question: unknown): Promise<unknown>;
}

/** For the main module of a worker process. */
export function serveUnits(create: (setup: unknown, hooks: ProcessHooks) => ProcessWork): void {
  // Ctrl-C reaches every process of a terminal; the parent decides what it means.
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);
  process.on('disconnect', () => process.exit());
  const send = (message: WorkerMessage): void => {
    if (process.connected) process.send?.(message);
  };
  const hooks: ProcessHooks = {
    onPart: (part) => {
      send({ kind: 'part', part });
    },
    onProgress: (progress) => {
      send({ kind: 'progress', progress });
    },
    onNotice: (message) => {
      send({ kind: 'notice', message });
    },
  };
  let work: ProcessWork | undefined;
  const handle = async (message: PoolMessage): Promise<void> => {
    let isOfSetup = true;
    try {
      if (message.kind === 'setup') work = create(message.setup, hooks);
      else if (message.kind === 'ask') send({ kind: 'done', answer: await work?.ask(message.question) });
      else {
        await work?.prepare(message.input);
        isOfSetup = false;
        await work?.run(message.input, new Set(message.done), hooks);
        send({ kind: 'done' });
      }
    } catch (cause) {
      send({ kind: 'failed', error: packError(cause), isOfSetup });
    }
  };
  process.on('message', (message: PoolMessage) => void handle(message));
}
