/** Programs run through ONNX Runtime's C interface, or through onnxruntime-node where that cannot be called. */
import { findNativeApi } from './native-api.js';
import { createNativeSession } from './native-session.js';
import { createScriptSession } from './script-session.js';
import type { Session, SessionOptions, SessionSignature } from './session.js';

export interface SessionRequest extends SessionOptions {
  readonly signature: SessionSignature;
  /** Default: the C interface if it can be called. */
  readonly binding?: 'native' | 'script' | undefined;
}

/** An object, so that tests can share sessions. */
export const sessionFactory = { create: createSession };

async function createSession(
  model: Uint8Array,
  { signature, binding, ...options }: SessionRequest,
): Promise<Session> {
  const api = binding === 'script' ? undefined : findNativeApi();
  if (api !== undefined) return createNativeSession(api, model, options, signature);
  if (binding === 'native') throw new Error('the C interface of ONNX Runtime cannot be called here');
  return createScriptSession(model, options, signature);
}
