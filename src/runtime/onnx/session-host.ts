/**
 * Who holds the ONNX Runtime sessions: this thread, or a worker so that the event loop stays free. Run on this thread,
 * inputs are read in place. Sent to a worker, they are copied once; outputs come back by transfer or copy.
 */
import { Worker } from 'node:worker_threads';
import type { InferenceSession, Tensor } from 'onnxruntime-node';
import { disableTelemetry, loadOnnxRuntime } from './load-onnxruntime.js';

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
  run(
    inputs: Readonly<Record<string, SessionValue>>,
    outputs?: readonly string[],
  ): Promise<Readonly<Record<string, SessionResult>>>;
  release(): Promise<void>;
}

export interface SessionHost {
  create(model: string | Uint8Array, options: InferenceSession.SessionOptions): Promise<Session>;
  close(): Promise<void>;
}

export function createLocalHost(): SessionHost {
  return {
    async create(model, options) {
      const ort = loadOnnxRuntime();
      const session =
        typeof model === 'string'
          ? await ort.InferenceSession.create(model, options)
          : await ort.InferenceSession.create(model, options);
      return {
        async run(inputs, outputs) {
          const feeds: Record<string, Tensor> = {};
          for (const name in inputs) {
            const { type, data, dims } = inputs[name]!;
            feeds[name] = new ort.Tensor(type, data as Float32Array, dims);
          }
          // The binding types data as a union over all element types; lowering only makes these three.
          return (await (outputs === undefined
            ? session.run(feeds)
            : session.run(feeds, outputs))) as unknown as Readonly<Record<string, SessionResult>>;
        },
        release: () => session.release(),
      };
    },
    close: () => Promise.resolve(),
  };
}

/** Posting a view would copy all of the buffer behind it, such as a whole cache for its first rows. */
function copyInputs(inputs: Readonly<Record<string, SessionValue>>) {
  return Object.fromEntries(
    Object.entries(inputs).map(([name, value]) => [name, { ...value, data: value.data.slice() }]),
  );
}

interface Answer {
  readonly task: number;
  readonly result?: Readonly<Record<string, SessionResult>>;
  readonly error?: string;
}

export function createWorkerHost(): SessionHost {
  disableTelemetry();
  const worker = new Worker(new URL('./session-worker.js', import.meta.url));
  // The pool must not keep a finished process alive; a pending request does.
  worker.unref();
  const pending = new Map<
    number,
    { resolve: (result: Readonly<Record<string, SessionResult>>) => void; reject: (error: Error) => void }
  >();
  let tasks = 0;
  let sessions = 0;
  let ended: Error | undefined;
  const failAll = (error: Error): void => {
    ended = error;
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
    failAll(ended ?? new Error('the runtime worker ended'));
  });
  const ask = (
    request: object,
    transfer: readonly ArrayBuffer[] = [],
  ): Promise<Readonly<Record<string, SessionResult>>> =>
    new Promise((resolve, reject) => {
      if (ended !== undefined) {
        reject(ended);
        return;
      }
      const task = tasks++;
      worker.postMessage({ task, ...request }, transfer);
      pending.set(task, { resolve, reject });
      worker.ref();
    });
  return {
    async create(model, options) {
      const session = sessions++;
      await ask({ kind: 'create', session, model, options });
      return {
        run: (inputs) => {
          const copies = copyInputs(inputs);
          return ask(
            { kind: 'run', session, inputs: copies },
            Object.values(copies).map(({ data }) => data.buffer),
          );
        },
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
