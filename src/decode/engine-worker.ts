/**
 * An engine in a thread of its own, so that this thread's event loop stays free while answers are computed: programs run
 * where they are called and block everything else there. Requests and tokens pass as small messages; several requests at
 * once share the passes of the target, and each gets the answer that it would get alone.
 */
import { Worker } from 'node:worker_threads';
import type { z } from 'zod';
import { MistletoeError } from '../core/errors.js';
import { disableTelemetry } from '../runtime/onnx/load-onnxruntime.js';
import type { ChatMessage } from '../text/chat-template.js';
import type { TokenEvent } from './answer.js';
import type { EngineAnswer, EngineRequest, EngineSettings, EngineTask } from './engine-messages.js';
import { answerSchema, createFailure, settingsSchema, taskSchema } from './engine-messages.js';
import type { Generation } from './plain.js';
import type { SpeculativeGeneration } from './speculative.js';

export interface EngineWorkerOptions extends Omit<EngineSettings, 'drafters'> {
  /** Name that requests use -> folder, bundled name, or a system without weights such as `ngram`. */
  readonly drafters?: Readonly<Record<string, string>>;
  /** What opening the models has to say. */
  readonly onNotice?: (message: string) => void;
}

export interface WorkerGenerateOptions extends Omit<EngineTask, 'prompt'> {
  readonly onToken?: (event: TokenEvent) => void;
  readonly onNotice?: (message: string) => void;
  readonly signal?: AbortSignal;
}

export interface EngineWorker {
  readonly target: Extract<EngineAnswer, { kind: 'ready' }>['target'];
  /** Answers a prompt: by speculative decoding where a drafter is named, else by plain decoding. */
  generate(
    prompt: string | readonly ChatMessage[],
    options?: WorkerGenerateOptions,
  ): Promise<Generation | SpeculativeGeneration>;
  /** Aborts what runs, which then answers with what it has, and ends the thread. */
  close(): Promise<void>;
}

/**
 * @example
 * const worker = await createEngineWorker({ target: bundledTarget, drafters: { fast: 'eagle3' } });
 * const { text } = await worker.generate('Why is the sky blue?', { drafter: 'fast', maxNewTokens: 64 });
 * await worker.close();
 */
export async function createEngineWorker(options: EngineWorkerOptions): Promise<EngineWorker> {
  const { onNotice, ...rest } = options;
  const settings = check(settingsSchema, { drafters: {}, ...rest }, 'createEngineWorker was given');
  const connection = new Connection(settings, onNotice);
  const target = await connection.opened;
  return {
    target,
    generate: async (prompt, { onToken, onNotice, signal, ...task } = {}) => {
      const checked = check(taskSchema, { prompt, ...task }, 'The engine was asked for');
      return connection.ask(checked, { onToken, onNotice, signal });
    },
    close: () => connection.close(),
  };
}

interface Listeners {
  readonly onToken: WorkerGenerateOptions['onToken'] | undefined;
  readonly onNotice: WorkerGenerateOptions['onNotice'] | undefined;
  readonly signal: AbortSignal | undefined;
}

interface Pending extends Listeners {
  readonly resolve: (generation: Generation) => void;
  readonly reject: (cause: Error) => void;
}

class Connection {
  readonly opened: Promise<EngineWorker['target']>;
  private readonly worker: Worker;
  private readonly pending = new Map<number, Pending>();
  private readonly ended: Promise<void>;
  private count = 0;
  private isClosed = false;
  /** Why nothing can be asked any more. */
  private fault: Error | undefined;

  constructor(settings: EngineSettings, onNotice: EngineWorkerOptions['onNotice']) {
    disableTelemetry(); // from the thread it would be too late
    this.worker = new Worker(new URL('./engine-thread.js', import.meta.url), { workerData: settings });
    this.opened = new Promise((resolve, reject) => {
      this.worker.on('message', (given: unknown) => {
        const answer = answerSchema.parse(given);
        if (answer.kind === 'ready') {
          this.rest();
          resolve(answer.target);
        } else if (answer.kind === 'failed' && answer.id === undefined) reject(createFailure(answer.failure));
        else if (answer.kind === 'notice' && answer.id === undefined) onNotice?.(answer.text);
        else this.hear(answer);
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
        this.fault ??= new MistletoeError('runtime', 'The engine was closed.');
        this.failAll(this.fault);
        resolve();
      });
    });
  }

  ask(task: EngineTask, listeners: Listeners): Promise<Generation> {
    if (this.isClosed || this.fault !== undefined)
      return Promise.reject(this.fault ?? new MistletoeError('runtime', 'The engine was closed.'));
    const id = this.count++;
    const { signal } = listeners;
    const abort = (): void => {
      this.post({ kind: 'abort', id });
    };
    return new Promise<Generation>((resolve, reject) => {
      this.pending.set(id, { ...listeners, resolve, reject });
      this.worker.ref();
      this.post({ kind: 'generate', id, task });
      if (signal?.aborted === true) abort();
      else signal?.addEventListener('abort', abort, { once: true });
    }).finally(() => {
      signal?.removeEventListener('abort', abort);
      this.pending.delete(id);
      this.rest();
    });
  }

  async close(): Promise<void> {
    if (!this.isClosed) this.post({ kind: 'close' });
    this.isClosed = true;
    this.worker.ref();
    await this.ended;
  }

  private hear(answer: EngineAnswer): void {
    if (answer.kind === 'ready' || answer.id === undefined) return;
    const request = this.pending.get(answer.id);
    if (answer.kind === 'token') request?.onToken?.(answer.event);
    else if (answer.kind === 'notice') request?.onNotice?.(answer.text);
    else if (answer.kind === 'done') request?.resolve(answer.generation);
    else request?.reject(createFailure(answer.failure));
  }

  private post(request: EngineRequest): void {
    this.worker.postMessage(request);
  }

  private failAll(cause: Error): void {
    for (const { reject } of this.pending.values()) reject(cause);
  }

  /** A thread that nobody waits for does not keep the process alive. */
  private rest(): void {
    if (this.pending.size === 0 && !this.isClosed) this.worker.unref();
  }
}

/** What a caller gives is refused here, where the call stands, and not in the thread. */
function check<Schema extends z.ZodType>(schema: Schema, given: unknown, start: string): z.infer<Schema> {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = issue === undefined || issue.path.length === 0 ? 'its options' : `"${issue.path.join('.')}"`;
  throw new MistletoeError('usage', `${start} a bad value for ${place}: ${issue?.message ?? 'unreadable'}.`, {
    hint: 'See the types of createEngineWorker and of its generate.',
  });
}
