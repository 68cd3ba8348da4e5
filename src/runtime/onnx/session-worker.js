// Holds ONNX Runtime sessions in a thread of its own. Plain JavaScript, so that it runs the same from src/ and dist/.
import { parentPort } from 'node:worker_threads';
import { loadOnnxRuntime } from './load-onnxruntime.js';

const ort = loadOnnxRuntime();

/** @type {Map<number, import('onnxruntime-node').InferenceSession>} */
const sessions = new Map();

/**
 * @typedef {{ task: number, kind: 'create', session: number, model: string | Uint8Array, options: import('onnxruntime-node').InferenceSession.SessionOptions }
 *   | { task: number, kind: 'run', session: number, inputs: Record<string, { type: 'float32' | 'int32' | 'bool', data: Float32Array | Int32Array | Uint8Array, dims: readonly number[] }>, outputs?: readonly string[] }
 *   | { task: number, kind: 'release', session: number }} Request
 */

/** @param {Request} request */
async function answer(request) {
  if (request.kind === 'create') {
    const { model, options } = request;
    const session =
      typeof model === 'string'
        ? await ort.InferenceSession.create(model, options)
        : await ort.InferenceSession.create(model, options);
    sessions.set(request.session, session);
    return {};
  }
  const session = sessions.get(request.session);
  if (session === undefined) throw new Error(`session ${request.session} is not open`);
  if (request.kind === 'release') {
    sessions.delete(request.session);
    await session.release();
    return {};
  }
  /** @type {Record<string, import('onnxruntime-node').Tensor>} */
  const feeds = {};
  for (const [name, { type, data, dims }] of Object.entries(request.inputs)) {
    feeds[name] = new ort.Tensor(type, /** @type {Float32Array} */ (data), dims);
  }
  const { outputs } = request;
  const results = await (outputs === undefined ? session.run(feeds) : session.run(feeds, outputs));
  return Object.fromEntries(
    Object.entries(results).map(([name, tensor]) => [name, { data: tensor.data, dims: tensor.dims }]),
  );
}

parentPort?.on('message', (/** @type {Request} */ request) => {
  answer(request).then(
    (result) => parentPort?.postMessage({ task: request.task, result }),
    (/** @type {unknown} */ error) => {
      const message = error instanceof Error ? error.message : String(error);
      parentPort?.postMessage({ task: request.task, error: message });
    },
  );
});
