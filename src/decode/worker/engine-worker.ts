/**
 * Runs an engine in a thread of its own, so that the caller's event loop stays free: programs block the thread that
 * runs them. Concurrent requests share target passes, and each gets the answer it would get alone.
 */
import { Worker } from 'node:worker_threads';
import { describeFault } from '../../core/schema.js';
import type * as z from '../../core/schema.js';
import { MistletoeError } from '../../core/errors.js';
import { disableTelemetry } from '../../runtime/onnx/load-onnxruntime.js';
import type { ChatMessage } from '../../text/template/chat-template.js';
import type { EngineLoad } from '../engine.js';
import type {
  AnswerProgress,
  EngineAnswer,
  EngineRequest,
  EngineSettings,
  EngineTask,
  WorkerTokenEvent,
} from './engine-messages.js';
import { createFailure, settingsSchema, taskSchema } from './engine-messages.js';
import type { Generation } from '../request.js';
import type { SpeculativeGeneration } from '../request.js';

export interface EngineWorkerOptions extends Omit<EngineSettings, 'drafters'> {
  /** Name in requests -> folder, bundled name, or a system without weights such as `ngram`. */
  readonly drafters?: Readonly<Record<string, string>> | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
}

export interface WorkerGenerateOptions extends Omit<EngineTask, 'prompt'> {
  readonly onToken?: ((event: WorkerTokenEvent) => void) | undefined;
  /** Everything from one pass, with the index of the answer. */
  readonly onProgress?: ((progress: AnswerProgress, index: number) => void) | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

type WorkerPrompt = string | readonly ChatMessage[] | readonly number[];

type Ready = Extract<EngineAnswer, { kind: 'ready' }>;

export interface EngineWorker {
  readonly target: Ready['target'];
  readonly device: string;
  readonly isChat: boolean;
  /** Speculative decoding if a drafter is named, else plain decoding. */
  generate(
    prompt: WorkerPrompt,
    options?: WorkerGenerateOptions,
  ): Promise<Generation | SpeculativeGeneration>;
  /** Reads the prompt once; each answer uses the next seed. Fails if one of them fails. */
  generateSeveral(
    prompt: WorkerPrompt,
    count: number,
    options?: WorkerGenerateOptions,
  ): Promise<readonly (Generation | SpeculativeGeneration)[]>;
  load(): Promise<EngineLoad>;
  /** Settles when the thread has ended, with the reason unless it was closed. */
  readonly ended: Promise<Error | undefined>;
  /** Aborts running requests, which return what they have, and ends the thread. */
  close(): Promise<void>;
}

/**
 * @example
 * const worker = await createEngineWorker({ target: bundledTarget, drafters: { fast: 'eagle3' } });
 * const { text } = await worker.generate('Write a Python function that reverses a string.', { drafter: 'fast', maxNewTokens: 64 });
 * await worker.close();
 */
export async function createEngineWorker(options: EngineWorkerOptions): Promise<EngineWorker> {
  const { onNotice, ...rest } = options;
  const settings = check(settingsSchema, { drafters: {}, ...rest }, 'createEngineWorker was given');
  const connection = new Connection(settings, onNotice);
  const { target, device, isChat } = await connection.opened;
  const ask = async (prompt: WorkerPrompt, count: number, options: WorkerGenerateOptions) => {
    const { onToken, onProgress, onNotice, signal, ...task } = options;
    const checked = check(taskSchema, { prompt, ...task }, 'The engine was asked for');
    return connection.ask(checked, count, { onToken, onProgress, onNotice, signal });
  };
  return {
    target,
    device,
    isChat,
    ended: connection.ended,
    generate: async (prompt, options = {}) => (await ask(prompt, 1, options))[0]!,
    generateSeveral: (prompt, count, options = {}) => ask(prompt, count, options),
    load: () => connection.askLoad(),
    close: () => connection.close(),
  };
}

type Listeners = Pick<WorkerGenerateOptions, 'onToken' | 'onProgress' | 'onNotice' | 'signal'>;

interface Pending extends Listeners {
  readonly index: number;
  readonly resolve: (generation: Generation) => void;
  readonly reject: (cause: Error) => void;
}

const closedText = 'The engine was closed.';

class Connection {
  readonly opened: Promise<Ready>;
  readonly ended: Promise<Error | undefined>;
  private readonly worker: Worker;
  private readonly pending = new Map<number, Pending>();
  private readonly loads = new Map<number, (load: EngineLoad) => void>();
  private count = 0;
  private isClosed = false;
  /** Why the engine takes no more requests. */
  private fault: Error | undefined;

  constructor(settings: EngineSettings, onNotice: EngineWorkerOptions['onNotice']) {
    disableTelemetry(); // from the thread it would be too late
    this.worker = new Worker(new URL('./engine-thread.js', import.meta.url), { workerData: settings });
    this.opened = new Promise((resolve, reject) => {
      this.worker.on('message', (answer: EngineAnswer) => {
        if (answer.kind === 'ready') {
          this.unrefIfIdle();
          resolve(answer);
        } else if (answer.kind === 'failed' && answer.id === undefined) reject(createFailure(answer.failure));
        else if (answer.kind === 'notice' && answer.id === undefined) onNotice?.(answer.text);
        else this.handleMessage(answer);
      });
      this.worker.on('error', (cause) => {
        this.fault = new MistletoeError('runtime', `The thread of the engine failed: ${cause.message}`, {
          cause,
        });
        reject(this.fault);
        this.failAll(this.fault);
      });
    });
    this.ended = new Promise((resolve) => {
      this.worker.once('exit', () => {
        const isExpected = this.isClosed && this.fault === undefined;
        this.fault ??= new MistletoeError('runtime', closedText);
        this.failAll(this.fault);
        resolve(isExpected ? undefined : this.fault);
      });
    });
  }

  async ask(task: EngineTask, count: number, listeners: Listeners): Promise<readonly Generation[]> {
    if (this.isClosed || this.fault !== undefined)
      throw this.fault ?? new MistletoeError('runtime', closedText);
    const ids = Array.from({ length: count }, () => this.count++);
    if (count === 0) return [];
    const { signal } = listeners;
    const abort = (): void => {
      for (const id of ids) this.post({ kind: 'abort', id });
    };
    const answers = ids.map(
      (id, index) =>
        new Promise<Generation>((resolve, reject) => {
          this.pending.set(id, { ...listeners, index, resolve, reject });
        }),
    );
    this.worker.ref();
    this.post({ kind: 'generate', ids, task });
    if (signal?.aborted === true) abort();
    else signal?.addEventListener('abort', abort, { once: true });
    const ended = Promise.allSettled(answers).finally(() => {
      signal?.removeEventListener('abort', abort);
      for (const id of ids) this.pending.delete(id);
      this.unrefIfIdle();
    });
    try {
      return await Promise.all(answers);
    } catch (cause) {
      abort(); // what is left of the others is of no use
      throw cause;
    } finally {
      await ended;
    }
  }

  askLoad(): Promise<EngineLoad> {
    if (this.isClosed || this.fault !== undefined)
      return Promise.resolve({ running: 0, waiting: 0, usedBytes: 0 });
    const id = this.count++;
    return new Promise((resolve) => {
      this.loads.set(id, resolve);
      this.worker.ref();
      this.post({ kind: 'load', id });
    });
  }

  async close(): Promise<void> {
    if (!this.isClosed) this.post({ kind: 'close' });
    this.isClosed = true;
    this.worker.ref();
    await this.ended;
  }

  private handleMessage(answer: EngineAnswer): void {
    if (answer.kind === 'ready' || answer.id === undefined) return;
    if (answer.kind === 'load') {
      this.loads.get(answer.id)?.(answer.load);
      this.loads.delete(answer.id);
      this.unrefIfIdle();
      return;
    }
    const request = this.pending.get(answer.id);
    if (answer.kind === 'progress') {
      request?.onProgress?.(answer.progress, request.index);
      if (request?.onToken !== undefined) answer.progress.tokens.forEach(request.onToken);
    } else if (answer.kind === 'notice') request?.onNotice?.(answer.text);
    else if (answer.kind === 'done') request?.resolve(answer.generation);
    else request?.reject(createFailure(answer.failure));
  }

  private post(request: EngineRequest): void {
    this.worker.postMessage(request);
  }

  private failAll(cause: Error): void {
    for (const { reject } of this.pending.values()) reject(cause);
    for (const resolve of this.loads.values()) resolve({ running: 0, waiting: 0, usedBytes: 0 });
    this.loads.clear();
  }

  /** An idle thread does not keep the process alive. */
  private unrefIfIdle(): void {
    if (this.pending.size === 0 && this.loads.size === 0 && !this.isClosed) this.worker.unref();
  }
}

/** Invalid options are refused here, at the call, not in the thread. */
function check<Schema extends z.ZodType>(schema: Schema, given: unknown, start: string): z.infer<Schema> {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const { place, fault } = describeFault(parsed.error);
  const named = place === '' ? 'its options' : `"${place}"`;
  throw new MistletoeError('usage', `${start} a bad value for ${named}: ${fault}.`, {
    hint: 'See the types of createEngineWorker and of its generate.',
  });
}
