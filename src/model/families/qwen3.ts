import type { Family } from './family.js';
import { readQwenWindow } from './qwen2.js';

export const qwen3: Family = {
  name: 'Qwen3',
  architecture: 'Qwen3ForCausalLM',
  modelType: 'qwen3',
  readTraits: (config) => ({
    queryKeyValueBias: config.attention_bias === true,
    outputBias: config.attention_bias === true,
    queryKeyNorm: true,
  }),
  readWindow: readQwenWindow,
};
