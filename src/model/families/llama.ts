import type { Family } from './family.js';

export const llama: Family = {
  name: 'Llama',
  architecture: 'LlamaForCausalLM',
  modelType: 'llama',
  readTraits: (config) => ({
    queryKeyValueBias: config.attention_bias === true,
    outputBias: config.attention_bias === true,
    queryKeyNorm: false,
  }),
  // Ignores the configuration.
  readWindow: () => undefined,
};
