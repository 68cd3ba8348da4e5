/** A session of onnxruntime-node: it converts every input and copies every output, and runs wherever the package does. */
import type { Tensor as OnnxTensor } from 'onnxruntime-node';
import { loadOnnxRuntime } from './load-onnxruntime.js';
import type { Session, SessionData, SessionOptions, SessionSignature } from './session.js';

export async function createScriptSession(
  model: Uint8Array,
  { threads, configuration, externalData }: SessionOptions,
  signature: SessionSignature,
): Promise<Session> {
  const session = await loadOnnxRuntime().InferenceSession.create(model, {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    graphOptimizationLevel: 'all',
    logSeverityLevel: 4, // what fails is thrown; ONNX Runtime need not print it too
    extra: configuration,
    ...(externalData === undefined ? {} : { externalData }),
  });
  const { Tensor } = loadOnnxRuntime();
  return {
    async run(inputs, outputs) {
      const feeds: Record<string, OnnxTensor> = {};
      inputs.forEach(({ type, data, dims }, place) => {
        feeds[signature.inputs[place]!] = new Tensor(type, data as Float32Array, dims);
      });
      const names = outputs.map(({ place }) => signature.outputs[place]!);
      const results = await session.run(feeds, names);
      return names.map((name) => results[name]!.data as SessionData);
    },
    release: () => session.release(),
  };
}
