import type { InferenceSession, Tensor } from 'onnxruntime-node';
import { loadOnnxRuntime } from './load-onnxruntime.js';

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

export async function createSession(
  model: string | Uint8Array,
  options: InferenceSession.SessionOptions,
): Promise<Session> {
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
      return (await (outputs === undefined
        ? session.run(feeds)
        : session.run(feeds, outputs))) as unknown as Readonly<Record<string, SessionResult>>;
    },
    release: () => session.release(),
  };
}
