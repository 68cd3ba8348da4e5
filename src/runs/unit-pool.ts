/**
 * Workers on this machine: processes, or threads on a GPU. A worker that dies is replaced and its unit is retried; parts
 * that the unit had finished count. A unit that ends its worker too often fails, and the others go on.
 */
import { MistletoeError } from '../core/errors.js';
import { type StartedWorker, startProcess, startThread, type WorkerEvents } from './started-worker.js';
import {
  type PoolMessage,
  type SentError,
  type Unit,
  type UnitExecutor,
  UnitFailed,
  type UnitHooks,
  unpackError,
  type WorkerName,
} from './unit.js';

export interface PoolWorker {
  readonly name: string;
  /** The GPU of a worker that is a thread; its threads share a context. Other workers are processes. */
  readonly gpu?: number | undefined;
  /** Sent whenever this worker is started. */
  readonly setup: unknown;
}

export interface PoolOptions {
  /** Main module of the workers. */
  readonly program: string;
  readonly workers: readonly PoolWorker[];
  /** How often a unit may end its worker. */
  readonly attempts?: number;
  readonly onNotice?: ((message: string) => void) | undefined;
}

const defaultAttempts = 3;

interface Slot {
  readonly worker: PoolWorker;
  started: StartedWorker | undefined;
  task: WorkerEvents | undefined;
  isBusy: boolean;
  /** It cannot do the work of this run. */
  isRetired: boolean;
}

type TaskHooks = Pick<UnitHooks, 'onPart'> & { onProgress(progress: unknown, worker: WorkerName): void };

/** The worker ended, or reported an error, while it had a task. */
class TaskFailed extends Error {
  constructor(
    message: string,
    /** Of the worker or its device, not of the unit. */
    readonly workerError?: SentError,
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
      return { worker, started: undefined, task: undefined, isBusy: false, isRetired: false };
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
        this.requireOpen();
        if (cause.workerError !== undefined) this.retire(slot, cause.workerError);
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
      if (cause instanceof TaskFailed && cause.workerError !== undefined)
        throw unpackError(cause.workerError);
      if (cause instanceof TaskFailed)
        throw new MistletoeError('runtime', `The first worker failed: ${cause.message}.`, {
          hint: 'Run with --workers 1 to see whether the run itself fails.',
        });
      throw cause;
    } finally {
      this.release(slot);
    }
  }

  async close(): Promise<void> {
    this.isClosed = true;
    for (const wake of this.waiting.splice(0)) wake();
    await Promise.all(this.slots.map(async ({ started }) => started?.kill()));
  }

  private requireOpen(): void {
    if (this.isClosed) throw new MistletoeError('runtime', 'The workers were closed.');
  }

  private async acquire(): Promise<Slot> {
    for (;;) {
      this.requireOpen();
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

  /** A lost GPU is lost for all its threads. With the last worker, the run ends: none of its units was at fault. */
  private retire(slot: Slot, error: SentError): void {
    const { gpu } = slot.worker;
    const isShared = error.deviceFault === 'lost' && gpu !== undefined;
    const unfit = isShared ? this.slots.filter(({ worker }) => worker.gpu === gpu) : [slot];
    const names = unfit.filter(({ isRetired }) => !isRetired).map(({ worker }) => worker.name);
    for (const each of unfit) each.isRetired = true;
    if (this.slots.every(({ isRetired }) => isRetired)) throw unpackError(error);
    if (names.length === 0) return;
    const verb = names.length === 1 ? 'is' : 'are';
    this.note(`${names.join(', ')} ${verb} not used any more: ${error.message}`);
  }

  private note(message: string): void {
    this.options.onNotice?.(message);
  }

  private perform(slot: Slot, message: PoolMessage, hooks: TaskHooks): Promise<unknown> {
    const started = (slot.started ??= this.start(slot));
    const worker = { name: slot.worker.name, pid: started.pid };
    const isThread = slot.worker.gpu !== undefined;
    return new Promise((resolve, reject) => {
      const fail = (cause: unknown): void => {
        slot.task = undefined;
        // A worker that failed may have lost its device or its memory: the next unit gets a new one.
        slot.started = undefined;
        void started.kill().then(() => {
          reject(cause instanceof Error ? cause : new Error(String(cause)));
        });
      };
      slot.task = {
        onMessage: (received) => {
          try {
            if (received.kind === 'part') hooks.onPart(received.part, worker);
            else if (received.kind === 'progress') hooks.onProgress(received.progress, worker);
            else if (received.kind === 'notice') this.note(received.message);
            else if (received.kind === 'done') {
              slot.task = undefined;
              resolve(received.answer);
            } else {
              const { error, isOfSetup } = received;
              // Another process has the device to itself; another thread would have the same one.
              const isOfWorker = isOfSetup || (isThread && error.deviceFault !== undefined);
              fail(new TaskFailed(error.message, isOfWorker ? error : undefined));
            }
          } catch (cause) {
            fail(cause);
          }
        },
        onEnd: (reason) => {
          fail(new TaskFailed(reason));
        },
      };
      started.send(message);
    });
  }

  private start(slot: Slot): StartedWorker {
    const start = slot.worker.gpu === undefined ? startProcess : startThread;
    const started = start(this.options.program, {
      onMessage: (message) => {
        if (slot.started === started) slot.task?.onMessage(message);
      },
      onEnd: (reason) => {
        if (slot.started !== started) return;
        slot.started = undefined;
        slot.task?.onEnd(reason);
      },
    });
    started.send({ kind: 'setup', setup: slot.worker.setup });
    return started;
  }
}
