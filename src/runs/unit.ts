/**
 * A unit of a run: plain data in, plain data out. Its output follows from its input and from the weights that the input
 * names by their hashes, so it does not matter where a unit runs, when, or how often.
 */
import { parentPort } from 'node:worker_threads';
import * as z from '../core/schema.js';
import { type ErrorCode, MistletoeError } from '../core/errors.js';
import { DeviceLostError, OutOfMemoryError } from '../runtime/program.js';

export interface Unit<Input = unknown> {
  readonly key: string;
  /** JSON, and all that a worker needs beside the models. It names no paths. */
  readonly input: Input;
}

/** One line of the run's units.jsonl, with its steps and its times. A unit has one part or more. */
export const partSchema = z.object({
  key: z.string(),
  data: z.json(),
  steps: z.array(z.json()),
  /** For timings.jsonl; null if nothing was timed. */
  timing: z.record(z.string(), z.json()).nullable(),
});
export type UnitPart = Readonly<z.infer<typeof partSchema>>;

export interface UnitHooks {
  onPart(part: UnitPart, worker: WorkerName): void;
  onProgress?(progress: unknown, worker: WorkerName): void;
}

export interface WorkerName {
  /** Empty for the process of the run itself. */
  readonly name: string;
  readonly pid: number | null;
}

/** Runs units: in this process, in workers on this machine, or on other machines. */
export interface UnitExecutor<Input = unknown> {
  /** Units that are worth handing over at once. */
  readonly capacity: number;
  /** Resolves once all parts have been passed to the hooks. Throws UnitFailed if the unit cannot be computed. */
  run(unit: Unit<Input>, hooks: UnitHooks): Promise<void>;
  close(): Promise<void>;
}

/** The unit failed too often; the rest of the run can still be finished. */
export class UnitFailed extends Error {}

/** Units that can run now. They depend on what is recorded, so units of a later phase appear once an earlier one ended. */
export interface UnitSchedule<Input = unknown> {
  /** The next unit in the run's order that has not been handed out; undefined while there is none. */
  next(): Unit<Input> | undefined;
}

export interface UnitDrive<Input> {
  readonly schedule: UnitSchedule<Input>;
  readonly executor: UnitExecutor<Input>;
  readonly signal?: AbortSignal | undefined;
  hooksOf(unit: Unit<Input>): UnitHooks;
  onFailure(unit: Unit<Input>, failure: UnitFailed): void;
}

/** Runs all units of a schedule, as many at once as the executor takes. Returns or throws once none runs any more. */
export async function driveUnits<Input>(drive: UnitDrive<Input>): Promise<void> {
  const { schedule, executor, signal } = drive;
  let running = 0;
  let fault: { readonly cause: unknown } | undefined;
  let wake: () => void = () => undefined;
  const stop = (cause: unknown): void => {
    fault ??= { cause };
    wake();
  };
  const run = async (unit: Unit<Input>): Promise<void> => {
    try {
      await executor.run(unit, drive.hooksOf(unit)).catch((cause: unknown) => {
        if (!(cause instanceof UnitFailed)) throw cause;
        drive.onFailure(unit, cause);
      });
    } catch (cause) {
      stop(cause);
    }
    running -= 1;
    wake();
  };
  const onAbort = (): void => {
    stop(signal?.reason);
  };
  const sleep = (): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
    });
  if (signal?.aborted === true) onAbort();
  signal?.addEventListener('abort', onAbort);
  try {
    while (fault === undefined) {
      const unit = running < executor.capacity ? schedule.next() : undefined;
      if (unit !== undefined) {
        running += 1;
        void run(unit);
      } else if (running === 0) return;
      else await sleep();
    }
    await executor.close();
    while (running > 0) await sleep();
    throw fault.cause;
  } finally {
    signal?.removeEventListener('abort', onAbort);
  }
}

// The worker's side of a pool: takes one task at a time until its parent is gone.
// The messages of a pool and its workers, which are processes or threads. Both are of this machine and this version.
export type PoolMessage =
  | { readonly kind: 'setup'; readonly setup: unknown }
  | { readonly kind: 'ask'; readonly question: unknown }
  | { readonly kind: 'run'; readonly input: unknown; readonly done: readonly string[] }
  /** For threads: what a process leaves on a GPU goes with it. */
  | { readonly kind: 'close' };

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
  readonly deviceFault?: keyof typeof deviceFaults | undefined;
}

const deviceFaults = { lost: DeviceLostError, memory: OutOfMemoryError } as const;

function packError(cause: unknown): SentError {
  if (!(cause instanceof MistletoeError))
    return { message: cause instanceof Error ? cause.message : String(cause) };
  const { message, code, hint } = cause;
  const deviceFault = (['lost', 'memory'] as const).find((fault) => cause instanceof deviceFaults[fault]);
  return { message, code, hint, deviceFault };
}

export function unpackError({ message, code, hint, deviceFault }: SentError): Error {
  if (deviceFault !== undefined) return new deviceFaults[deviceFault](message, hint ?? '');
  if (code === undefined) return new Error(message);
  return new MistletoeError(code, message, hint === undefined ? {} : { hint });
}

export interface ProcessHooks {
  readonly onPart: (part: UnitPart) => void;
  readonly onProgress: (progress: unknown) => void;
}

export interface ProcessWork {
  /** Opens what the unit needs; a failure is one of this worker, not of the unit. */
  prepare(input: unknown): Promise<void>;
  run(input: unknown, done: ReadonlySet<string>, hooks: ProcessHooks): Promise<void>;
  ask(question: unknown): Promise<unknown>;
  /** Frees the memory of the device, also while a unit runs. */
  dispose(): Promise<void>;
}

export function serveUnits(
  create: (setup: unknown, onNotice: (message: string) => void) => ProcessWork,
): void {
  const send = (message: WorkerMessage): void => {
    if (parentPort !== null) parentPort.postMessage(JSON.stringify(message));
    else if (process.connected) process.send?.(message);
  };
  const hooks: ProcessHooks = {
    onPart: (part) => {
      send({ kind: 'part', part });
    },
    onProgress: (progress) => {
      send({ kind: 'progress', progress });
    },
  };
  const noteToParent = (message: string): void => {
    send({ kind: 'notice', message });
  };
  let work: ProcessWork | undefined;
  const close = async (): Promise<void> => {
    try {
      await work?.dispose();
    } finally {
      process.exit();
    }
  };
  const handle = async (message: PoolMessage): Promise<void> => {
    let isOfSetup = true;
    try {
      if (message.kind === 'setup') work = create(message.setup, noteToParent);
      else if (message.kind === 'close') await close();
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
  if (parentPort !== null) {
    parentPort.on('message', (text: string) => void handle(JSON.parse(text) as PoolMessage));
    return;
  }
  // Ctrl-C reaches every process of a terminal; the parent decides what it means.
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);
  process.on('disconnect', () => process.exit());
  process.on('message', (message: PoolMessage) => void handle(message));
}
