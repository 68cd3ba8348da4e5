import { windowedLayers } from '../context-length.js';
import type { Family } from './family.js';

/** The default of transformers' MistralConfig; null means no window. */
const defaultWindow = 4096;

export const mistral: Family = {
  name: 'Mistral',
  architecture: 'MistralForCausalLM',
  modelType: 'mistral',
  readTraits: () => ({ queryKeyValueBias: false, outputBias: false, queryKeyNorm: false }),
  readWindow(fields) {
    const length = fields.sliding_window === undefined ? defaultWindow : fields.sliding_window;
    return length === null ? undefined : { length, layers: windowedLayers(fields, () => true) };
  },
};
