import type { ContextFields, LayerWindow } from '../context-length.js';
import { windowedLayers } from '../context-length.js';
import type { Family } from './family.js';

export const qwen2: Family = {
  name: 'Qwen2',
  architecture: 'Qwen2ForCausalLM',
  modelType: 'qwen2',
  readTraits: () => ({ queryKeyValueBias: true, outputBias: false, queryKeyNorm: false }),
  readWindow: readQwenWindow,
};

/** Off by default, else from layer `max_window_layers` on (transformers' defaults). */
export function readQwenWindow(fields: ContextFields): LayerWindow | undefined {
  const length = fields.sliding_window === undefined ? 4096 : fields.sliding_window;
  if (fields.use_sliding_window !== true || length === null) return undefined;
  const first = fields.max_window_layers ?? 28;
  return { length, layers: windowedLayers(fields, (layer) => layer >= first) };
}
