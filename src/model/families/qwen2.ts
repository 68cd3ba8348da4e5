import type { Family } from '../configuration.js';

/** Biases on query, key and value, whatever the configuration says. */
export const qwen2: Family = {
  name: 'Qwen2',
  architecture: 'Qwen2ForCausalLM',
  modelType: 'qwen2',
  readTraits: () => ({ queryKeyValueBias: true, outputBias: false, queryKeyNorm: false }),
};
