/** What the supported model families do differently, and how far back their layers look. */
import * as z from '../core/schema.js';
import type { RotaryScaling } from './rotary/rotary.js';

const count = z.number().int().positive();

/** Fields of config.json that the context length depends on. */
export const contextFields = {
  num_hidden_layers: count,
  max_position_embeddings: count.nullish(),
  /** Used by some Llama, Vicuna and Medusa configurations. */
  max_sequence_length: count.nullish(),
  sliding_window: count.nullish(),
  use_sliding_window: z.boolean().nullish(),
  max_window_layers: z.number().int().nonnegative().nullish(),
  layer_types: z.array(z.enum(['full_attention', 'sliding_attention'])).nullish(),
};
const contextSchema = z.object(contextFields);
type ContextFields = z.infer<typeof contextSchema>;

/** With a window of w, position t sees positions above t - w. */
interface LayerWindow {
  readonly length: number;
  readonly layers: readonly boolean[]; // [layer]
}

export interface ContextReach {
  readonly contextLength: number;
  readonly contextOrigin: string;
  /** Visible positions, including its own, if fewer than the context. */
  readonly slidingWindow: number | undefined;
  readonly notes: readonly string[];
}

/**
 * If all layers have the same window it is a mask; layers with and without one would need two masks, so the context
 * then ends at the window. It also ends where longer sequences would need cached keys rotated again
 * (rotary/rotary.ts).
 */
export function readContext(
  fields: ContextFields,
  positions: number,
  scaling: RotaryScaling,
  window: LayerWindow | undefined,
): ContextReach {
  const [contextLength, contextOrigin] = readPositions(fields, positions, scaling);
  const notes = [...describeScaling(scaling, contextLength)];
  if (window === undefined || window.length >= contextLength || !window.layers.includes(true)) {
    return { contextLength, contextOrigin, slidingWindow: undefined, notes };
  }
  if (window.layers.every(Boolean)) {
    return { contextLength, contextOrigin, slidingWindow: window.length, notes };
  }
  const windowed = window.layers.filter(Boolean).length;
  const origin = `the sliding window of ${windowed} of its ${window.layers.length} layers`;
  return {
    contextLength: window.length,
    contextOrigin: origin,
    slidingWindow: undefined,
    notes: [
      ...notes,
      `The context ends at ${window.length} of ${contextLength} positions, ${origin}: beyond it layers with and without a window are not supported.`,
    ],
  };
}

/** The length and where it comes from. */
function readPositions(
  { max_position_embeddings: stated, max_sequence_length: scaled }: ContextFields,
  positions: number,
  scaling: RotaryScaling,
): readonly [number, string] {
  // Long Vicunas keep the length before scaling in one and after scaling in the other.
  if (scaling.kind === 'linear' && scaled != null && scaled > positions)
    return [scaled, 'max_sequence_length'];
  if (scaling.kind === 'yarn') {
    const stretched = Math.floor(scaling.originalContext * scaling.factor);
    if (stretched > positions)
      return [stretched, 'original_max_position_embeddings times the factor of yarn'];
  }
  if (scaling.kind === 'longrope' && scaling.originalContext < positions)
    return [scaling.originalContext, 'original_max_position_embeddings, where longrope changes its factors'];
  return [positions, stated == null ? 'max_sequence_length' : 'max_position_embeddings'];
}

function describeScaling({ kind }: RotaryScaling, contextLength: number): readonly string[] {
  const end = `The context ends at ${contextLength} positions`;
  if (kind === 'dynamic')
    return [`${end}: beyond them dynamic scaling turns what was read before, which is not supported.`];
  return kind === 'longrope' ? [`${end}: longrope's factors for longer sequences are not supported.`] : [];
}

/** Larger counts are refused before anything is built. */
const maxLayers = 10_000;

/** From `layer_types`, else by family. */
function windowedLayers(
  { layer_types: types, num_hidden_layers: count }: ContextFields,
  byDefault: (layer: number) => boolean,
): readonly boolean[] {
  return Array.from({ length: Math.min(count, maxLayers) }, (_, layer) =>
    types == null ? byDefault(layer) : types[layer] === 'sliding_attention',
  );
}

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
