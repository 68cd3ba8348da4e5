/** A session of onnxruntime-node: it converts every input and copies every output, and runs wherever the package does. */
import type { InferenceSession, Tensor } from 'onnxruntime-node';
import { loadOnnxRuntime } from './load-onnxruntime.js';
import type { Session, SessionOptions, SessionResult } from './session.js';

export async function createScriptSession(
  model: string | Uint8Array,
  { threads, configuration, externalData }: SessionOptions,
): Promise<Session> {
  return openScriptSession(model, {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    graphOptimizationLevel: 'all',
    logSeverityLevel: 4, // what fails is thrown; ONNX Runtime need not print it too
    extra: configuration,
    ...(externalData === undefined ? {} : { externalData }),
  });
}

export async function openScriptSession(
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
      const names = outputs.map(({ name }) => name);
      return (await session.run(feeds, names)) as unknown as Readonly<Record<string, SessionResult>>;
    },
    release: () => session.release(),
  };
}
