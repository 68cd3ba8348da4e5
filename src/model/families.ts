/** What the supported model families do differently. */
import { windowedLayers, type ContextFields, type LayerWindow } from './context-length.js';

export interface FamilyTraits {
  readonly queryKeyValueBias: boolean;
  readonly outputBias: boolean;
  /** RMS norm of each head's query and key before rotation. */
  readonly queryKeyNorm: boolean;
}

interface Family {
  readonly name: string;
  readonly architecture: string;
  readonly modelType: string;
  readTraits(config: Readonly<Record<string, unknown>>): FamilyTraits;
  readWindow(fields: ContextFields): LayerWindow | undefined;
  /** Whether layers have a router and experts (experts.ts). */
  readonly hasExperts?: true;
}

const plainTraits: FamilyTraits = {
  queryKeyValueBias: false,
  outputBias: false,
  queryKeyNorm: false,
};

/** transformers' default; null means no window. */
const defaultWindow = 4096;

/** Off by default, else from layer `max_window_layers` on (transformers' defaults). */
function readQwenWindow(fields: ContextFields): LayerWindow | undefined {
  const { sliding_window: length = defaultWindow } = fields;
  if (fields.use_sliding_window !== true || length === null) return undefined;
  const first = fields.max_window_layers ?? 28;
  return { length, layers: windowedLayers(fields, (layer) => layer >= first) };
}

const readQwen3Traits: Family['readTraits'] = ({ attention_bias: bias }) => ({
  queryKeyValueBias: bias === true,
  outputBias: bias === true,
  queryKeyNorm: true,
});

export type FamilyName = 'llama' | 'mistral' | 'qwen2' | 'qwen3' | 'qwen3-moe' | 'mimo';

export const families: Readonly<Record<FamilyName, Family>> = {
  llama: {
    name: 'Llama',
    architecture: 'LlamaForCausalLM',
    modelType: 'llama',
    readTraits: ({ attention_bias: bias }) => ({
      ...plainTraits,
      queryKeyValueBias: bias === true,
      outputBias: bias === true,
    }),
    readWindow: () => undefined, // whatever the configuration says
  },
  mistral: {
    name: 'Mistral',
    architecture: 'MistralForCausalLM',
    modelType: 'mistral',
    readTraits: () => plainTraits,
    readWindow(fields) {
      const { sliding_window: length = defaultWindow } = fields;
      return length === null ? undefined : { length, layers: windowedLayers(fields, () => true) };
    },
  },
  qwen2: {
    name: 'Qwen2',
    architecture: 'Qwen2ForCausalLM',
    modelType: 'qwen2',
    readTraits: () => ({ ...plainTraits, queryKeyValueBias: true }),
    readWindow: readQwenWindow,
  },
  qwen3: {
    name: 'Qwen3',
    architecture: 'Qwen3ForCausalLM',
    modelType: 'qwen3',
    readTraits: readQwen3Traits,
    readWindow: readQwenWindow,
  },
  mimo: {
    name: 'MiMo',
    architecture: 'MiMoForCausalLM',
    modelType: 'mimo',
    readTraits: () => ({ ...plainTraits, queryKeyValueBias: true }),
    readWindow: readQwenWindow,
  },
  'qwen3-moe': {
    name: 'Qwen3-MoE',
    architecture: 'Qwen3MoeForCausalLM',
    modelType: 'qwen3_moe',
    readTraits: readQwen3Traits,
    // Of all layers, unlike Qwen3.
    readWindow: (fields) => readQwenWindow({ ...fields, max_window_layers: 0 }),
    hasExperts: true,
  },
};
