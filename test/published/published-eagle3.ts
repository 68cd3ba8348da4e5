/**
 * Published EAGLE-3 heads: the authors' own, SpecForge's and those of vLLM's speculators library, which write the same
 * facts in three ways, or leave them to a default.
 */
import { draftSizes } from './drafter-row.js';
import type { Eagle3Drafter, Eagle3Row } from './eagle3-row.js';
import { describeEagle3Row, draftTokens } from './eagle3-row.js';

const sizeKeys = {
  ...{ hidden_size: draftSizes.hidden, intermediate_size: draftSizes.intermediate, hidden_act: 'silu' },
  ...{ num_attention_heads: draftSizes.heads, num_hidden_layers: 1, vocab_size: draftSizes.vocabulary },
  ...{ model_type: 'llama', tie_word_embeddings: false },
};
const grouped = { ...sizeKeys, num_key_value_heads: draftSizes.keyValueHeads };
const draftVocabulary = { draft_vocab_size: draftTokens.length };
const authors = { architectures: ['LlamaForCausalLM'], pad_token_id: 0, max_position_embeddings: 2048 };
const specForge = { architectures: ['LlamaForCausalLMEagle3'], attention_bias: false, use_cache: true };
const speculators = { speculators_model_type: 'eagle3', ...draftVocabulary, target_hidden_size: null };
const plain10000 = { base: 10_000 };

/** Listed layers, and the streams before which SGLang captures: in the order of the layers, whatever the list's is. */
const specForgeTaps: readonly (readonly [listed: readonly number[], taps: readonly number[]])[] = [
  [
    [2, 4, 6],
    [3, 5, 7],
  ],
  [
    [0, 3, 6],
    [1, 4, 7],
  ],
  [
    [6, 1, 4],
    [2, 5, 7],
  ],
];

const rows: readonly Eagle3Row[] = [
  {
    name: 'yuhuili/EAGLE3-Vicuna1.3-13B',
    file: 'pytorch_model.bin',
    dtype: 'F16',
    keyValueHeads: 4,
    isWhole: true,
    config: {
      ...{ ...sizeKeys, ...authors, bos_token_id: 1, eos_token_id: 2 },
      ...{ rms_norm_eps: 1e-6, draft_vocab_size: draftSizes.vocabulary },
    },
    facts: { normEpsilon: 1e-6, rotary: plain10000 },
  },
  {
    // Its trainer ran with the base that the missing rope_theta stands for, not with the target's 500000.
    name: 'yuhuili/EAGLE3-LLaMA3.1-Instruct-8B',
    file: 'pytorch_model.bin',
    dtype: 'F16',
    config: {
      ...{ ...grouped, ...authors, ...draftVocabulary, bos_token_id: 128_000, eos_token_id: 128_001 },
      rms_norm_eps: 1e-5,
    },
    facts: { normEpsilon: 1e-5, rotary: plain10000 },
  },
  {
    name: 'a SpecForge head for Llama-3.1-8B-Instruct',
    file: 'model.safetensors',
    dtype: 'BF16',
    config: {
      ...{ ...grouped, ...specForge, ...draftVocabulary, bos_token_id: 128_000, eos_token_id: 128_001 },
      ...{ max_position_embeddings: 2048, rms_norm_eps: 1e-5, pretraining_tp: 1 },
    },
    facts: { normEpsilon: 1e-5, rotary: plain10000 },
  },
  {
    // Published as [1, 46, 90] for 94 layers: outputs of layers 1, L/2 - 1 and L - 4.
    name: 'the SpecForge head for Qwen3-235B-A22B',
    file: 'model.safetensors',
    dtype: 'BF16',
    keyValueHeads: 1,
    headSize: 16,
    config: {
      ...{ ...sizeKeys, ...specForge, ...draftVocabulary, num_key_value_heads: 1, head_dim: 16 },
      eagle_config: { eagle_aux_hidden_state_layer_ids: [1, 3, 4], use_aux_hidden_state: true },
      ...{ max_position_embeddings: 40_960, rms_norm_eps: 1e-6, rope_theta: 1_000_000.0, rope_scaling: null },
    },
    facts: { normEpsilon: 1e-6, rotary: { base: 1_000_000 }, taps: [2, 4, 5] },
  },
  ...specForgeTaps.map(([listed, taps]): Eagle3Row => ({
    name: `a SpecForge head on the outputs of ${listed.join(', ')}`,
    file: 'model.safetensors',
    config: {
      ...{ ...grouped, ...specForge, ...draftVocabulary },
      eagle_config: { eagle_aux_hidden_state_layer_ids: listed, use_aux_hidden_state: true },
      ...{ max_position_embeddings: 4096, rms_norm_eps: 1e-6, rope_theta: 1_000_000.0 },
    },
    facts: { normEpsilon: 1e-6, rotary: { base: 1_000_000 }, taps },
  })),
  {
    // Some exporters narrow the map to 32 bits.
    name: 'a SpecForge head with d2t as int32',
    file: 'model.safetensors',
    dtype: 'BF16',
    mapType: 'I32',
    config: {
      ...{ ...grouped, ...specForge, ...draftVocabulary },
      ...{ max_position_embeddings: 2048, rms_norm_eps: 1e-5, rope_theta: 500_000.0 },
    },
    facts: { normEpsilon: 1e-5, rotary: { base: 500_000 } },
  },
  {
    name: 'the SpecForge EAGLE 3.1 head for Qwen3-30B-A3B',
    file: 'model.safetensors',
    dtype: 'BF16',
    headSize: 16,
    config: {
      ...{ ...grouped, ...specForge, ...draftVocabulary, head_dim: 16, fc_norm: true, norm_output: true },
      ...{ max_position_embeddings: 2048, rms_norm_eps: 1e-6, rope_theta: 1_000_000.0, rope_scaling: null },
      ...{ sliding_window: null, use_sliding_window: false, max_window_layers: 48 },
    },
    facts: { normEpsilon: 1e-6, rotary: { base: 1_000_000 }, fusionNorm: 'each', feedsNormed: true },
  },
  {
    // AngelSlim's head for Qwen3-1.7B says so, and brings an output projection over fewer tokens all the same.
    name: 'a head whose config.json ties what cannot be tied',
    file: 'model.safetensors',
    dtype: 'BF16',
    config: {
      ...{ ...grouped, ...specForge, ...draftVocabulary, head_dim: 8, tie_word_embeddings: true },
      ...{ max_position_embeddings: 40_960, rms_norm_eps: 1e-6, rope_theta: 1_000_000, rope_scaling: null },
    },
    facts: { normEpsilon: 1e-6, rotary: { base: 1_000_000 } },
  },
  {
    name: 'a head with every tensor that a head may bring',
    file: 'model.safetensors',
    extras: true,
    ownEmbedding: true,
    config: {
      ...{ ...grouped, ...specForge, ...draftVocabulary, attention_bias: true },
      ...{ max_position_embeddings: 2048, rms_norm_eps: 1e-5, rope_theta: 500_000.0 },
    },
    facts: { normEpsilon: 1e-5, rotary: { base: 500_000 } },
  },
  {
    name: 'RedHatAI/Qwen3-8B-speculator.eagle3',
    file: 'model.safetensors',
    dtype: 'BF16',
    ownEmbedding: true,
    config: {
      ...{ architectures: ['Eagle3Speculator'], ...speculators, norm_before_residual: true },
      transformer_layer_config: {
        ...{
          ...grouped,
          head_dim: 8,
          attention_bias: false,
          mlp_bias: false,
          max_position_embeddings: 40_960,
        },
        ...{ rms_norm_eps: 1e-6, rope_scaling: null, rope_theta: 1_000_000 },
      },
    },
    facts: {
      ...{ normEpsilon: 1e-6, rotary: { base: 1_000_000 }, layer: 'layers.0', normBeforeResidual: true },
    },
  },
  {
    name: 'an EAGLE-3 head with three layers',
    file: 'model.safetensors',
    config: {
      ...{ ...grouped, ...specForge, ...draftVocabulary, num_hidden_layers: 3 },
      ...{ max_position_embeddings: 2048, rms_norm_eps: 1e-5, rope_theta: 500_000.0 },
    },
    facts: { normEpsilon: 1e-5, rotary: { base: 500_000 }, layers: 3 },
  },
  {
    // A value carried over from the target's config: the layer attends fully.
    name: 'an EAGLE-3 head with sliding_window alone',
    file: 'model.safetensors',
    config: {
      ...{ ...grouped, ...specForge, ...draftVocabulary, sliding_window: 6 },
      ...{ max_position_embeddings: 2048, rms_norm_eps: 1e-5, rope_theta: 500_000.0 },
    },
    facts: { normEpsilon: 1e-5, rotary: { base: 500_000 } },
  },
  {
    name: 'an EAGLE-3 head with a sliding window',
    file: 'model.safetensors',
    config: {
      ...{ ...grouped, ...specForge, ...draftVocabulary, sliding_window: 6 },
      layer_types: ['sliding_attention'],
      ...{ max_position_embeddings: 2048, rms_norm_eps: 1e-5, rope_theta: 500_000.0 },
    },
    facts: { normEpsilon: 1e-5, rotary: { base: 500_000 }, window: 6 },
  },
  {
    // Shorter than a draft: its own earlier levels leave the window, too.
    name: 'an EAGLE-3 head with two sliding layers by layer_types',
    file: 'model.safetensors',
    config: {
      ...{ ...grouped, ...specForge, ...draftVocabulary, num_hidden_layers: 2, sliding_window: 2 },
      layer_types: ['sliding_attention', 'sliding_attention'],
      ...{ max_position_embeddings: 2048, rms_norm_eps: 1e-5, rope_theta: 500_000.0 },
    },
    facts: { normEpsilon: 1e-5, rotary: { base: 500_000 }, layers: 2, window: 2 },
  },
  {
    name: 'RedHatAI/Qwen3-8B-speculator.peagle',
    file: 'model.safetensors',
    dtype: 'BF16',
    ownEmbedding: true,
    config: {
      ...{ architectures: ['PEagleDraftModel'], ...speculators, speculators_model_type: 'peagle' },
      mask_token_id: 39,
      transformer_layer_config: {
        ...{ ...grouped, head_dim: 8, num_hidden_layers: 4, max_position_embeddings: 40_960 },
        ...{ rms_norm_eps: 1e-6, rope_scaling: null, rope_theta: 1_000_000 },
      },
    },
    facts: { normEpsilon: 1e-6, rotary: { base: 1_000_000 }, layer: 'layers.0', layers: 4, maskToken: 39 },
  },
  {
    name: 'a P-EAGLE head of two layers with ptd_token_id',
    file: 'model.safetensors',
    config: {
      ...{ ...grouped, ...specForge, ...draftVocabulary, num_hidden_layers: 2, ptd_token_id: 5 },
      ...{ max_position_embeddings: 2048, rms_norm_eps: 1e-5, rope_theta: 500_000.0 },
    },
    facts: { normEpsilon: 1e-5, rotary: { base: 500_000 }, layers: 2, maskToken: 5 },
  },
  {
    name: 'a P-EAGLE head with a sliding window',
    file: 'model.safetensors',
    config: {
      ...{ ...grouped, ...specForge, ...draftVocabulary, num_hidden_layers: 2, ptd_token_id: 5 },
      ...{ max_position_embeddings: 2048, rms_norm_eps: 1e-5, rope_theta: 500_000.0, sliding_window: 3 },
      layer_types: ['sliding_attention', 'sliding_attention'],
    },
    facts: { normEpsilon: 1e-5, rotary: { base: 500_000 }, layers: 2, maskToken: 5, window: 3 },
  },
  {
    name: 'the speculators conversion for Llama-3.1-8B-Instruct',
    file: 'model.safetensors',
    config: {
      ...{ architectures: ['Eagle3Speculator'], ...speculators, norm_before_residual: false },
      transformer_layer_config: {
        ...{ ...grouped, head_dim: 8, attention_bias: false, mlp_bias: false, max_position_embeddings: 256 },
        ...{ rms_norm_eps: 1e-5, rope_theta: 500_000.0 },
        rope_scaling: {
          ...{ factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0 },
          ...{ original_max_position_embeddings: 16, rope_type: 'llama3' },
        },
      },
    },
    facts: {
      normEpsilon: 1e-5,
      rotary: { base: 500_000, scaling: { kind: 'llama3', factor: 8, low: 1, high: 4, original: 16 } },
      layer: 'layers.0',
    },
  },
  {
    // Without norm_before_residual, which then is true; taps as the residual streams before these layers.
    name: 'a later speculators head with taps of its own',
    file: 'model.safetensors',
    dtype: 'BF16',
    ownEmbedding: true,
    config: {
      ...{ architectures: ['Eagle3DraftModel'], ...speculators, norm_before_fc: false },
      ...{ eagle_aux_hidden_state_layer_ids: [2, 4, 7], embed_requires_grad: false },
      transformer_layer_config: {
        ...{ ...grouped, attention_bias: false, max_position_embeddings: 262_144, rms_norm_eps: 1e-6 },
        rope_parameters: { rope_theta: 500_000.0, rope_type: 'default' },
      },
    },
    facts: {
      ...{ normEpsilon: 1e-6, rotary: { base: 500_000 }, layer: 'layers.0', normBeforeResidual: true },
      taps: [2, 4, 7],
    },
  },
  {
    name: 'RedHatAI/gpt-oss-20b-speculator.eagle3',
    file: 'model.safetensors',
    dtype: 'BF16',
    headSize: 16,
    ownEmbedding: true,
    config: {
      ...{ architectures: ['Eagle3DraftModel'], ...speculators },
      ...{ norm_before_fc: true, norm_before_residual: true },
      transformer_layer_config: {
        ...{ ...grouped, head_dim: 16, rms_norm_eps: 1e-5, rope_theta: 10_000.0 },
        max_position_embeddings: 131_072,
      },
    },
    facts: {
      ...{ normEpsilon: 1e-5, rotary: plain10000, layer: 'layers.0', normBeforeResidual: true },
      fusionNorm: 'joined',
    },
  },
];

export const eagle3Rows: readonly Eagle3Drafter[] = rows.map(describeEagle3Row);
