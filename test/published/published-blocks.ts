/** Published heads of DFlash and DSpark: config.json with the keys of the releases, tiny sizes, the tensors' names. */
import { createRandom } from '../../src/core/random.js';
import type { WritableTensor, WritableTensors } from '../support/checkpoint/encode-values.js';
import { noise, normWeight } from '../support/tiny-checkpoints.js';
import type { PublishedDrafter } from './drafter-row.js';
import { draftSizes } from './drafter-row.js';
import { draftTokens } from './eagle3-row.js';
import type { BlockFacts } from './float64-blocks.js';
import { scoreWithBlocks } from './float64-blocks.js';
import type { Config } from './published-layouts.js';
import { bias, layerWeights, linear, storeAs } from './published-layouts.js';
import { drafterTarget } from './published-targets.js';

interface BlockRow {
  readonly name: string;
  readonly kind: 'dflash' | 'dspark';
  readonly layout: string;
  readonly config: Config;
  /** Its own output projection, over a draft vocabulary. */
  readonly hasMap?: boolean;
  /** Copies of the target's tables, here other ones. */
  readonly hasTables?: boolean;
  readonly rank?: number;
  readonly facts: Partial<BlockFacts> & Pick<BlockFacts, 'slots' | 'maskToken' | 'taps' | 'layers'>;
}

export interface BlockDrafter extends PublishedDrafter {
  readonly facts: BlockFacts;
}

const { hidden, vocabulary } = draftSizes;

function describeRow(row: BlockRow): BlockDrafter {
  const facts: BlockFacts = {
    ...{ ...draftSizes, targetVocabulary: vocabulary, contextNorm: 'hidden_norm' },
    ...{ normEpsilon: 1e-6, rotary: { base: 1_000_000 }, isShifted: false },
    isCausal: Array.from({ length: row.facts.layers }, () => false),
    ...row.facts,
  };
  const random = createRandom(4, 'blocks', row.name);
  const tensors: Record<string, WritableTensor> = {
    'fc.weight': linear(random, hidden, facts.taps.length * hidden),
    'hidden_norm.weight': normWeight(random, hidden),
    'norm.weight': normWeight(random, hidden),
  };
  for (let layer = 0; layer < facts.layers; layer++)
    Object.assign(tensors, layerWeights(`layers.${layer}`, draftSizes, random, { queryKeyNorm: true }));
  if (row.hasMap === true) {
    const offsets = draftTokens.map((token, draft) => token - draft);
    tensors['lm_head.weight'] = linear(random, draftTokens.length, hidden, 3);
    tensors.d2t = { dtype: 'I64', shape: [offsets.length], values: offsets };
    const known = Array.from({ length: vocabulary }, (_, token) => (draftTokens.includes(token) ? 1 : 0));
    tensors.t2d = { dtype: 'BOOL', shape: [vocabulary], values: known };
  }
  if (row.hasTables === true) {
    tensors['embed_tokens.weight'] = noise(random, [vocabulary, hidden], 1);
    tensors['lm_head.weight'] = linear(random, vocabulary, hidden, 3);
  }
  if (row.rank !== undefined) {
    tensors['markov_head.markov_w1.weight'] = noise(random, [vocabulary, row.rank], 1);
    tensors['markov_head.markov_w2.weight'] = linear(random, vocabulary, row.rank, 2);
    tensors['confidence_head.proj.weight'] = linear(random, 1, hidden + row.rank, 1);
    tensors['confidence_head.proj.bias'] = bias(random, 1);
  }
  if (row.rank !== undefined && facts.markov === 'gated') {
    tensors['markov_head.gate_proj.weight'] = linear(random, row.rank, hidden + row.rank, 3);
    tensors['markov_head.gate_proj.bias'] = bias(random, row.rank);
  }
  if (row.rank !== undefined && facts.markov === 'rnn') {
    tensors['markov_head.joint_proj.weight'] = linear(random, 3 * row.rank, 2 * row.rank + hidden, 3);
    tensors['markov_head.joint_proj.bias'] = bias(random, 3 * row.rank);
  }
  const stored: WritableTensors = storeAs('BF16', tensors);
  return {
    ...{ name: row.name, kind: row.kind, layout: row.layout, target: drafterTarget, facts },
    folder: { config: row.config, file: 'model.safetensors', tensors: stored },
    score: (target) => scoreWithBlocks(stored, target, facts),
  };
}

const qwen3 = {
  ...{ hidden_size: hidden, intermediate_size: draftSizes.intermediate, head_dim: draftSizes.headSize },
  ...{ num_attention_heads: draftSizes.heads, num_key_value_heads: draftSizes.keyValueHeads },
  ...{ hidden_act: 'silu', model_type: 'qwen3', rms_norm_eps: 1e-6, rope_scaling: null },
  ...{ max_position_embeddings: 40_960, rope_theta: 1_000_000, vocab_size: vocabulary },
  ...{ attention_bias: false, attention_dropout: 0, tie_word_embeddings: false, initializer_range: 0.02 },
  ...{ sliding_window: null, use_sliding_window: false, max_window_layers: 5, torch_dtype: 'bfloat16' },
} as const;

const full = (layers: number): string[] => Array.from({ length: layers }, () => 'full_attention');

const zLab = {
  ...{ ...qwen3, architectures: ['DFlashDraftModel'], num_target_layers: 8 },
  auto_map: { AutoModel: 'dflash.DFlashDraftModel' },
};

const deepSpec = {
  ...{ ...qwen3, architectures: ['Qwen3DSparkModel'], num_hidden_layers: 2, layer_types: full(2) },
  ...{ block_size: 7, mask_token_id: 37, target_layer_ids: [1, 3, 5], num_anchors: 512 },
};
const deepSpecFacts = { slots: 7, maskToken: 37, taps: [2, 4, 6], layers: 2, isShifted: true };

export const blockRows: readonly BlockDrafter[] = [
  {
    name: 'z-lab/Qwen3-8B-DFlash-b16',
    kind: 'dflash' as const,
    layout: 'DFlash head',
    config: {
      ...{ ...zLab, block_size: 16, num_hidden_layers: 5, layer_types: full(5) },
      dflash_config: { mask_token_id: 37, target_layer_ids: [1, 2, 3, 4, 5] },
    },
    facts: { slots: 16, maskToken: 37, taps: [2, 3, 4, 5, 6], layers: 5 },
  },
  {
    name: 'z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat, without a list of layers',
    kind: 'dflash' as const,
    layout: 'DFlash head',
    config: {
      ...{ ...zLab, block_size: 10, num_hidden_layers: 3, rope_theta: 500_000 },
      dflash_config: { mask_token_id: 36 },
    },
    // Outputs of round(1 + 4 j / 2), so 1, 3 and 5.
    facts: { slots: 10, maskToken: 36, taps: [2, 4, 6], layers: 3, rotary: { base: 500_000 } },
  },
  {
    name: 'a DFlash head with sliding layers, causal within the block',
    kind: 'dflash' as const,
    layout: 'DFlash head',
    config: {
      ...{ ...zLab, block_size: 8, num_hidden_layers: 2, sliding_window: 4096, use_sliding_window: true },
      layer_types: ['sliding_attention', 'full_attention'],
      dflash_config: { mask_token_id: 37, target_layer_ids: [1, 5] },
    },
    facts: { slots: 8, maskToken: 37, taps: [2, 6], layers: 2, isCausal: [true, false] },
  },
  {
    name: 'RedHatAI/Qwen3-8B-speculator.dflash',
    kind: 'dflash' as const,
    layout: 'DFlash head, speculators format',
    hasMap: true,
    config: {
      ...{ architectures: ['DFlashDraftModel'], speculators_model_type: 'dflash', block_size: 8 },
      ...{ draft_vocab_size: draftTokens.length, mask_token_id: 38, aux_hidden_state_layer_ids: [2, 4, 7] },
      transformer_layer_config: { ...qwen3, num_hidden_layers: 3, layer_types: full(3) },
    },
    facts: { slots: 8, maskToken: 38, taps: [2, 4, 7], layers: 3 },
  },
  {
    name: 'deepseek-ai/dspark_qwen3_8b_block7',
    kind: 'dspark' as const,
    layout: 'DSpark head',
    hasTables: true,
    rank: 6,
    config: {
      ...{ ...deepSpec, markov_rank: 6, markov_head_type: 'vanilla' },
      ...{ enable_confidence_head: true, confidence_head_with_markov: true },
    },
    facts: deepSpecFacts,
  },
  ...(['gated', 'rnn'] as const).map((markov) => ({
    name: `a DSpark head with a Markov head of the type ${markov}`,
    kind: 'dspark' as const,
    layout: 'DSpark head',
    hasTables: true,
    rank: 6,
    config: {
      ...deepSpec,
      markov_rank: 6,
      markov_head_type: markov,
      enable_confidence_head: true,
      confidence_head_with_markov: true,
    },
    facts: { ...deepSpecFacts, markov },
  })),
  {
    name: 'a DSpark head in the speculators format with a Markov head of the type rnn',
    kind: 'dspark' as const,
    layout: 'DSpark head',
    hasTables: true,
    rank: 6,
    config: {
      ...{ architectures: ['DSparkDraftModel'], speculators_model_type: 'dspark', block_size: 8 },
      ...{ draft_vocab_size: vocabulary, mask_token_id: 38, aux_hidden_state_layer_ids: [2, 4, 7] },
      ...{ markov_rank: 6, markov_head_type: 'rnn' },
      ...{ enable_confidence_head: true, confidence_head_with_markov: true },
      transformer_layer_config: { ...qwen3, num_hidden_layers: 2, layer_types: full(2) },
    },
    facts: { slots: 8, maskToken: 38, taps: [2, 4, 7], layers: 2, markov: 'rnn' as const },
  },
  {
    name: 'deepseek-ai/dflash_qwen3_8b_block7',
    kind: 'dspark' as const,
    layout: 'DSpark head without a Markov head: DFlash, shifted by one',
    hasTables: true,
    config: { ...deepSpec, markov_rank: 0, enable_confidence_head: false },
    facts: deepSpecFacts,
  },
].map(describeRow);
