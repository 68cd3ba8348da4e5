/**
 * Worker processes of this machine. A worker that dies is replaced and its unit is retried; parts that the unit had
 * finished count. A unit that ends its worker too often fails, and the others go on.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { MistletoeError } from '../core/errors.js';
import {
  type PoolMessage,
  type SentError,
  type Unit,
  type UnitExecutor,
  UnitFailed,
  type UnitHooks,
  unpackError,
  type WorkerMessage,
  type WorkerName,
} from './unit.js';

export interface PoolWorker {
  readonly name: string;
  /** Sent to each new process of this worker. */
  readonly setup: unknown;
}

export interface PoolOptions {
  /** Main module of the worker processes. */
  readonly program: string;
  readonly workers: readonly PoolWorker[];
  /** How often a unit may end its worker. */
  readonly attempts?: number;
  readonly onNotice?: ((message: string) => void) | undefined;
}

/** People and programs can see in the environment what this process was given; workers need none of it. */
const secretNames = /token|key|secret|password|credential|_queue$|^node_options$/i;
const defaultAttempts = 3;
const maxErrorOutput = 2000;

interface Slot {
  readonly worker: PoolWorker;
  child: ChildProcess | undefined;
  errorOutput: string;
  isBusy: boolean;
  /** Its processes cannot do the work of this run. */
  isRetired: boolean;
}

type TaskHooks = Pick<UnitHooks, 'onPart'> & { onProgress(progress: unknown, worker: WorkerName): void };

/** The worker ended, or reported an error, while it had a task. */
class TaskFailed extends Error {
  constructor(
    message: string,
    readonly setupError: SentError | undefined,
  ) {
    super(message);
  }
}

export class UnitPool<Input = unknown> implements UnitExecutor<Input> {
  private readonly slots: readonly Slot[];
  private readonly attempts: number;
  private readonly waiting: (() => void)[] = [];
  private isClosed = false;

  constructor(private readonly options: PoolOptions) {
    this.attempts = options.attempts ?? defaultAttempts;
    this.slots = options.workers.map((worker): Slot => {
      return { worker, child: undefined, errorOutput: '', isBusy: false, isRetired: false };
    });
  }

  get capacity(): number {
    return this.slots.filter(({ isRetired }) => !isRetired).length;
  }

  async run(unit: Unit<Input>, hooks: UnitHooks): Promise<void> {
    const done = new Set<string>();
    const own: TaskHooks = {
      onPart: (part, worker) => {
        hooks.onPart(part, worker);
        done.add(part.key);
      },
      onProgress: (progress, worker) => hooks.onProgress?.(progress, worker),
    };
    for (let attempt = 1; ;) {
      const slot = await this.acquire();
      try {
        await this.perform(slot, { kind: 'run', input: unit.input, done: [...done] }, own);
        return;
      } catch (cause) {
        if (!(cause instanceof TaskFailed)) throw cause;
        if (cause.setupError !== undefined) this.retire(slot, cause.setupError);
        else if (attempt >= this.attempts) {
          throw new UnitFailed(`${cause.message} (${attempt === 1 ? '1 attempt' : `${attempt} attempts`})`);
        } else {
          this.note(
            `${slot.worker.name}, ${unit.key}: ${cause.message}. Attempt ${attempt + 1} of ${this.attempts} follows.`,
          );
          attempt += 1;
        }
      } finally {
        this.release(slot);
      }
    }
  }

  /** A question to one worker, before units run. */
  async ask(question: unknown): Promise<unknown> {
    const slot = await this.acquire();
    try {
      return await this.perform(
        slot,
        { kind: 'ask', question },
        { onPart: () => undefined, onProgress: () => undefined },
      );
    } catch (cause) {
      if (cause instanceof TaskFailed && cause.setupError !== undefined) throw unpackError(cause.setupError);
      if (cause instanceof TaskFailed) throw endedWorker(cause.message);
      throw cause;
    } finally {
      this.release(slot);
    }
  }

  async close(): Promise<void> {
    this.isClosed = true;
    for (const wake of this.waiting.splice(0)) wake();
    await Promise.all(
      this.slots.map(async (slot) => {
        const { child } = slot;
        if (child === undefined) return;
        slot.child = undefined;
        const isOver = child.exitCode !== null || child.signalCode !== null;
        const ended = isOver ? Promise.resolve() : once(child, 'exit');
        child.kill('SIGKILL');
        await ended;
      }),
    );
  }

  private async acquire(): Promise<Slot> {
    for (;;) {
      if (this.isClosed) throw new MistletoeError('runtime', 'The worker processes were closed.');
      const free = this.slots.find(({ isBusy, isRetired }) => !isBusy && !isRetired);
      if (free !== undefined) {
        free.isBusy = true;
        return free;
      }
      await new Promise<void>((resolve) => {
        this.waiting.push(resolve);
      });
    }
  }

  private release(slot: Slot): void {
    slot.isBusy = false;
    this.waiting.shift()?.();
  }

  /** With the last worker, the run ends: none of its units was at fault. */
  private retire(slot: Slot, error: SentError): void {
    slot.isRetired = true;
    if (this.slots.every(({ isRetired }) => isRetired)) throw unpackError(error);
    this.note(`${slot.worker.name} is not used any more: ${error.message}`);
  }

  private note(message: string): void {
    this.options.onNotice?.(message);
  }

  private perform(slot: Slot, message: PoolMessage, hooks: TaskHooks): Promise<unknown> {
    const child = (slot.child ??= this.start(slot));
    const worker = { name: slot.worker.name, pid: child.pid ?? null };
    return new Promise((resolve, reject) => {
      const settle = (failure?: { readonly cause: unknown }, answer?: unknown): void => {
        child.off('message', onMessage).off('exit', onExit).off('error', onError);
        if (failure === undefined) {
          resolve(answer);
          return;
        }
        // A process that failed may have lost its device or its memory: the next unit gets a new one.
        if (slot.child === child) slot.child = undefined;
        child.kill('SIGKILL');
        reject(failure.cause instanceof Error ? failure.cause : new Error(String(failure.cause)));
      };
      const onMessage = (received: WorkerMessage): void => {
        try {
          if (received.kind === 'part') hooks.onPart(received.part, worker);
          else if (received.kind === 'progress') hooks.onProgress(received.progress, worker);
          else if (received.kind === 'notice') this.note(received.message);
          else if (received.kind === 'done') settle(undefined, received.answer);
          else {
            const { error, isOfSetup } = received;
            settle({ cause: new TaskFailed(error.message, isOfSetup ? error : undefined) });
          }
        } catch (cause) {
          settle({ cause });
        }
      };
      const onExit = (code: number | null, signal: string | null): void => {
        const end = signal ?? `code ${code ?? 0}`;
        const said = slot.errorOutput.trim();
        settle({
          cause: new TaskFailed(`the worker ended with ${end}${said === '' ? '' : `: ${said}`}`, undefined),
        });
      };
      const onError = (cause: Error): void => {
        settle({ cause: new TaskFailed(`the worker cannot be reached: ${cause.message}`, undefined) });
      };
      child.on('message', onMessage).on('exit', onExit).on('error', onError);
      child.send(message, (cause) => {
        // The exit says more than a broken pipe, and follows it.
        if (cause !== null && child.connected) onError(cause);
      });
    });
  }

  private start(slot: Slot): ChildProcess {
    const environment = Object.entries(process.env).filter(([name]) => !secretNames.test(name));
    const child = fork(this.options.program, [], {
      execArgv: [],
      env: Object.fromEntries(environment),
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    slot.errorOutput = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      slot.errorOutput = `${slot.errorOutput}${text}`.slice(-maxErrorOutput);
    });
    child.once('exit', () => {
      if (slot.child === child) slot.child = undefined;
    });
    child.on('error', () => undefined);
    child.send({ kind: 'setup', setup: slot.worker.setup } satisfies PoolMessage, () => undefined);
    return child;
  }
}

function endedWorker(message: string): MistletoeError {
  return new MistletoeError('runtime', `The first worker process failed: ${message}.`, {
    hint: 'Run without --workers to see whether the run itself fails.',
  });
}
