import type { Family } from '../configuration.js';

export const mistral: Family = {
  name: 'Mistral',
  architecture: 'MistralForCausalLM',
  modelType: 'mistral',
  readTraits: () => ({ queryKeyValueBias: false, outputBias: false, queryKeyNorm: false }),
};
