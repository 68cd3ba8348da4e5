/**
 * Published targets. Keys and values are those of the releases' config.json; sizes are tiny ones of the same kind
 * (grouped queries stay grouped), and lengths that act on what is computed, such as a sliding window or the context
 * before scaling, shrink with the context so that they act here too.
 */
import { createRandom } from '../../src/core/random.js';
import type { DecoderFacts } from './float64-model.js';
import type { Config, DecoderSizes, DecoderTraits, PublishedFolder } from './published-layouts.js';
import { decoderWeights, storeAs } from './published-layouts.js';

export interface PublishedTarget {
  readonly name: string;
  readonly family: 'llama' | 'mistral' | 'qwen2' | 'qwen3' | 'qwen3-moe' | 'mimo';
  readonly facts: DecoderFacts;
  readonly folder: PublishedFolder;
}

const grouped = {
  ...{ hidden: 32, intermediate: 48, heads: 4, keyValueHeads: 2, headSize: 8 },
  ...{ layers: 4, vocabulary: 40 },
} as const satisfies DecoderSizes;
const full: DecoderSizes = { ...grouped, keyValueHeads: 4 };

interface Release {
  readonly name: string;
  readonly family?: PublishedTarget['family'];
  readonly sizes?: DecoderSizes;
  readonly traits?: DecoderTraits;
  readonly file?: string;
  readonly dtype?: 'F16' | 'BF16';
  /** What config.json says besides sizes; a key of `omitted` is one that this release does not have. */
  readonly config: Config;
  readonly omitted?: readonly string[];
  readonly facts: Pick<DecoderFacts, 'normEpsilon' | 'rotary' | 'window' | 'experts'>;
}

const architectures = {
  llama: 'LlamaForCausalLM',
  mistral: 'MistralForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  qwen3: 'Qwen3ForCausalLM',
  mimo: 'MiMoForCausalLM',
  'qwen3-moe': 'Qwen3MoeForCausalLM',
} as const;

function describe(release: Release): PublishedTarget {
  const { name, family = 'llama', sizes = grouped, traits = {}, omitted = [], facts } = release;
  const tensors = decoderWeights(sizes, createRandom(3, name), traits);
  const config: Record<string, unknown> = {
    architectures: [architectures[family]],
    model_type: family.replace('-', '_'),
    hidden_act: 'silu',
    hidden_size: sizes.hidden,
    intermediate_size: sizes.intermediate,
    num_hidden_layers: sizes.layers,
    num_attention_heads: sizes.heads,
    num_key_value_heads: sizes.keyValueHeads,
    vocab_size: sizes.vocabulary,
    tie_word_embeddings: traits.tied ?? false,
    ...release.config,
  };
  return {
    name,
    family,
    facts: { ...sizes, ...facts },
    folder: {
      config: Object.fromEntries(Object.entries(config).filter(([key]) => !omitted.includes(key))),
      file: release.file ?? 'model.safetensors',
      tensors: release.dtype === undefined ? tensors : storeAs(release.dtype, tensors),
    },
  };
}

const llama1 = {
  sizes: full,
  traits: { frequencies: true },
  file: 'pytorch_model.bin',
  dtype: 'F16',
  config: {
    ...{ bos_token_id: 1, eos_token_id: 2, pad_token_id: 0 },
    ...{ max_position_embeddings: 2048, rms_norm_eps: 1e-6 },
  },
  omitted: ['num_key_value_heads'],
  facts: { normEpsilon: 1e-6, rotary: { base: 10_000 } },
} as const satisfies Omit<Release, 'name'>;
const llama2 = {
  ...llama1,
  omitted: [],
  config: {
    ...{
      bos_token_id: 1,
      eos_token_id: 2,
      pretraining_tp: 1,
      rope_scaling: null,
    },
    ...{ max_position_embeddings: 4096, rms_norm_eps: 1e-5 },
  },
  facts: { normEpsilon: 1e-5, rotary: { base: 10_000 } },
} as const satisfies Omit<Release, 'name'>;
const llama3 = {
  dtype: 'BF16',
  config: {
    ...{
      attention_bias: false,
      bos_token_id: 128_000,
      eos_token_id: 128_001,
      rope_scaling: null,
    },
    ...{
      max_position_embeddings: 8192,
      rms_norm_eps: 1e-5,
      rope_theta: 500_000.0,
    },
  },
  facts: { normEpsilon: 1e-5, rotary: { base: 500_000 } },
} as const satisfies Omit<Release, 'name'>;

/** Published: 8192 of 131072 positions. */
const scaled = (factor: number) =>
  ({
    config: {
      ...llama3.config,
      ...{
        mlp_bias: false,
        max_position_embeddings: 256,
        eos_token_id: [128_001, 128_008, 128_009],
      },
      rope_scaling: {
        ...{ factor, low_freq_factor: 1.0, high_freq_factor: 4.0 },
        ...{ original_max_position_embeddings: 16, rope_type: 'llama3' },
      },
    },
    facts: {
      normEpsilon: 1e-5,
      rotary: {
        base: 500_000,
        scaling: { kind: 'llama3', factor, low: 1, high: 4, original: 16 },
      },
    },
  }) as const satisfies Omit<Release, 'name'>;

const mistral = {
  family: 'mistral',
  dtype: 'BF16',
  config: {
    ...{
      bos_token_id: 1,
      eos_token_id: 2,
      max_position_embeddings: 64,
      rms_norm_eps: 1e-5,
    },
    ...{ rope_theta: 10_000.0, sliding_window: 8 },
  },
  facts: { normEpsilon: 1e-5, rotary: { base: 10_000 }, window: 8 },
} as const satisfies Omit<Release, 'name'>;
const laterMistral = {
  ...mistral,
  config: { ...mistral.config, rope_theta: 1_000_000.0, sliding_window: null },
  facts: { normEpsilon: 1e-5, rotary: { base: 1_000_000 } },
} as const satisfies Omit<Release, 'name'>;

const qwen2 = {
  family: 'qwen2',
  dtype: 'BF16',
  traits: { queryKeyValueBias: true },
  config: {
    ...{ bos_token_id: 151_643, eos_token_id: 151_645, attention_dropout: 0.0 },
    ...{
      max_position_embeddings: 32_768,
      rms_norm_eps: 1e-6,
      rope_theta: 1_000_000.0,
    },
    ...{
      sliding_window: 131_072,
      use_sliding_window: false,
      max_window_layers: 28,
    },
  },
  facts: { normEpsilon: 1e-6, rotary: { base: 1_000_000 } },
} as const satisfies Omit<Release, 'name'>;

/** Published: 8 of 128 experts of 768. */
const qwen3Moe = {
  ...qwen2,
  family: 'qwen3-moe',
  sizes: { ...grouped, headSize: 16 },
  traits: { queryKeyNorm: true, experts: { count: 8, intermediate: 12 } },
  config: {
    ...qwen2.config,
    ...{
      attention_bias: false,
      head_dim: 16,
      max_position_embeddings: 40_960,
      rope_scaling: null,
    },
    ...{
      sliding_window: null,
      max_window_layers: 48,
      decoder_sparse_step: 1,
      mlp_only_layers: [],
    },
    ...{
      num_experts: 8,
      num_experts_per_tok: 3,
      moe_intermediate_size: 12,
      norm_topk_prob: true,
    },
    ...{ output_router_logits: false, router_aux_loss_coef: 0.001 },
  },
  facts: {
    ...qwen2.facts,
    experts: { isSparse: () => true, perToken: 3, normalized: true },
  },
} as const satisfies Omit<Release, 'name'>;

const releases: readonly Release[] = [
  { name: 'lmsys/vicuna-7b-v1.3', ...llama1 },
  { name: 'lmsys/vicuna-13b-v1.3', ...llama1 },
  { name: 'lmsys/vicuna-7b-v1.5', ...llama2 },
  { name: 'lmsys/vicuna-13b-v1.5', ...llama2 },
  {
    name: 'lmsys/vicuna-7b-v1.5-16k',
    ...llama2,
    config: {
      ...{ ...llama2.config, max_sequence_length: 16_384 },
      rope_scaling: { factor: 4.0, type: 'linear' },
    },
    facts: {
      normEpsilon: 1e-5,
      rotary: { base: 10_000, scaling: { kind: 'linear', factor: 4 } },
    },
  },
  {
    name: 'meta-llama/Llama-2-7b-chat-hf',
    ...llama2,
    file: 'model.safetensors',
  },
  { name: 'meta-llama/Meta-Llama-3-8B-Instruct', ...llama3 },
  { name: 'meta-llama/Llama-3.1-8B-Instruct', ...llama3, ...scaled(8.0) },
  {
    name: 'meta-llama/Llama-3.2-1B-Instruct',
    ...llama3,
    ...scaled(32.0),
    config: { ...scaled(32.0).config, head_dim: grouped.headSize },
    traits: { tied: true },
  },
  { name: 'mistralai/Mistral-7B-Instruct-v0.1', ...mistral },
  { name: 'mistralai/Mistral-7B-Instruct-v0.2', ...laterMistral },
  {
    name: 'mistralai/Mistral-7B-Instruct-v0.3',
    ...laterMistral,
    sizes: { ...grouped, vocabulary: 41 },
  },
  { name: 'Qwen/Qwen2-7B-Instruct', ...qwen2 },
  {
    name: 'Qwen/Qwen2.5-0.5B-Instruct',
    ...qwen2,
    sizes: { ...grouped, hidden: 28, headSize: 4, heads: 7, keyValueHeads: 1 },
    traits: { queryKeyValueBias: true, tied: true },
    config: { ...qwen2.config, sliding_window: 32_768, max_window_layers: 21 },
  },
  { name: 'Qwen/Qwen2.5-7B-Instruct', ...qwen2 },
  {
    name: 'Qwen/Qwen3-8B',
    ...qwen2,
    family: 'qwen3',
    // Heads of a size of their own: together they are wider than the model, as in the smaller releases.
    sizes: { ...grouped, headSize: 16 },
    traits: { queryKeyNorm: true },
    config: {
      ...qwen2.config,
      ...{
        attention_bias: false,
        head_dim: 16,
        max_position_embeddings: 40_960,
        rope_scaling: null,
      },
      ...{ sliding_window: null, max_window_layers: 36 },
    },
  },
  { name: 'Qwen/Qwen3-30B-A3B', ...qwen3Moe },
  {
    name: 'XiaomiMiMo/MiMo-7B-RL',
    ...qwen2,
    family: 'mimo',
    config: {
      ...qwen2.config,
      ...{
        attention_bias: true,
        head_dim: grouped.headSize,
        num_nextn_predict_layers: 1,
      },
      ...{
        rms_norm_eps: 1e-5,
        rope_theta: 640_000,
        rope_scaling: null,
        sliding_window: 32_768,
      },
    },
    facts: { normEpsilon: 1e-5, rotary: { base: 640_000 } },
  },
  {
    name: 'TinyLlama/TinyLlama-1.1B-Chat-v1.0',
    ...llama2,
    sizes: { ...grouped, keyValueHeads: 1 },
    traits: {},
    file: 'model.safetensors',
    dtype: 'BF16',
    config: {
      ...{
        bos_token_id: 1,
        eos_token_id: 2,
        attention_bias: false,
        rope_scaling: null,
        pretraining_tp: 1,
      },
      ...{
        max_position_embeddings: 2048,
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
      },
    },
  },
  {
    name: 'HuggingFaceTB/SmolLM2-135M-Instruct',
    dtype: 'BF16',
    sizes: { ...grouped, hidden: 48, heads: 6 },
    traits: { tied: true },
    config: {
      ...{
        bos_token_id: 1,
        eos_token_id: 2,
        pad_token_id: 2,
        attention_bias: false,
        mlp_bias: false,
      },
      ...{ is_llama_config: true, rope_interleaved: false, rope_scaling: null },
      ...{
        max_position_embeddings: 8192,
        rms_norm_eps: 1e-5,
        rope_theta: 100_000,
      },
    },
    facts: { normEpsilon: 1e-5, rotary: { base: 100_000 } },
  },
];

export const publishedTargets: readonly PublishedTarget[] = releases.map(describe);

/** What drafters are proved on: grouped queries and a rotary base that is nobody's default, deep enough for taps. */
export const drafterTarget = describe({
  name: 'meta-llama/Meta-Llama-3-8B-Instruct, eight layers',
  ...llama3,
  sizes: { ...grouped, layers: 8 },
});

/** Experts in every second layer but one, with weights that are not divided by their sum; named as transformers 5 does. */
export const partlySparseTarget = describe({
  name: 'Qwen3-MoE with dense layers',
  ...qwen3Moe,
  traits: { ...qwen3Moe.traits, sparse: [1, 5] },
  sizes: { ...qwen3Moe.sizes, layers: 6 },
  config: {
    ...qwen3Moe.config,
    ...{
      decoder_sparse_step: 2,
      mlp_only_layers: [3],
      norm_topk_prob: false,
      num_local_experts: 8,
    },
  },
  omitted: ['num_experts'],
  facts: {
    ...qwen2.facts,
    experts: {
      isSparse: (name) => /\.[15]$/.test(name),
      perToken: 3,
      normalized: false,
    },
  },
});

/** Vocabularies of one tokenizer, padded to different sizes: Qwen2.5 at 7B and 0.5B. */
export const paddedTarget = describe({
  name: 'Qwen/Qwen2.5-7B-Instruct, padded further',
  ...qwen2,
  sizes: { ...grouped, vocabulary: 44 },
});
