/**
 * Who holds the ONNX Runtime sessions: this thread, or a worker so that the event loop stays free. Run on this thread,
 * inputs are read in place. Sent to a worker, they are copied once; outputs come back by transfer or copy.
 */
import { Worker } from 'node:worker_threads';
import ort from 'onnxruntime-node';

export interface SessionValue {
  readonly type: 'float32' | 'int32' | 'bool';
  readonly data: Float32Array | Int32Array | Uint8Array;
  readonly dims: readonly number[];
}

export interface SessionResult {
  readonly data: Float32Array | Int32Array | Uint8Array;
  readonly dims: readonly number[];
}

export interface Session {
  run(inputs: Readonly<Record<string, SessionValue>>): Promise<Readonly<Record<string, SessionResult>>>;
  release(): Promise<void>;
}

export interface SessionHost {
  create(model: string | Uint8Array, options: ort.InferenceSession.SessionOptions): Promise<Session>;
  close(): Promise<void>;
}

export function createLocalHost(): SessionHost {
  return {
    async create(model, options) {
      const session =
        typeof model === 'string'
          ? await ort.InferenceSession.create(model, options)
          : await ort.InferenceSession.create(model, options);
      return {
        async run(inputs) {
          const feeds: Record<string, ort.Tensor> = {};
          for (const name in inputs) {
            const { type, data, dims } = inputs[name]!;
            feeds[name] = new ort.Tensor(type, data as Float32Array, dims);
          }
          // The binding types data as a union over all element types; lowering only makes these three.
          return (await session.run(feeds)) as unknown as Readonly<Record<string, SessionResult>>;
        },
        release: () => session.release(),
      };
    },
    close: () => Promise.resolve(),
  };
}

interface Answer {
  readonly task: number;
  readonly result?: Readonly<Record<string, SessionResult>>;
  readonly error?: string;
}

export function createWorkerHost(): SessionHost {
  const worker = new Worker(new URL('./session-worker.js', import.meta.url));
  // The pool must not keep a finished process alive; a pending request does.
  worker.unref();
  const pending = new Map<
    number,
    { resolve(result: Readonly<Record<string, SessionResult>>): void; reject(error: Error): void }
  >();
  let tasks = 0;
  let sessions = 0;
  const failAll = (error: Error): void => {
    for (const { reject } of pending.values()) reject(error);
    pending.clear();
  };
  worker.on('message', ({ task, result, error }: Answer) => {
    const request = pending.get(task);
    pending.delete(task);
    if (pending.size === 0) worker.unref();
    if (result === undefined) request?.reject(new Error(error ?? 'the worker sent no result'));
    else request?.resolve(result);
  });
  worker.on('error', failAll);
  worker.on('exit', () => {
    failAll(new Error('the runtime worker ended'));
  });
  const ask = (request: object): Promise<Readonly<Record<string, SessionResult>>> =>
    new Promise((resolve, reject) => {
      const task = tasks++;
      pending.set(task, { resolve, reject });
      worker.ref();
      worker.postMessage({ task, ...request });
    });
  return {
    async create(model, options) {
      const session = sessions++;
      await ask({ kind: 'create', session, model, options });
      return {
        run: (inputs) => ask({ kind: 'run', session, inputs }),
        release: async () => {
          await ask({ kind: 'release', session });
        },
      };
    },
    async close() {
      await worker.terminate();
    },
  };
}
