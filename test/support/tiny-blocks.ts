/** Tiny heads of DFlash and DSpark in every published layout. */
import type { Random } from '../../src/core/random.js';
import { createRandom } from '../../src/core/random.js';
import type { WritableTensor, WritableTensors } from './checkpoint/encode-values.js';
import { writeTorchFile } from './checkpoint/write-torch-file.js';
import type { TinySizes } from './tiny-checkpoints.js';
import {
  createWorld,
  layerTensors,
  llamaConfig,
  matrix,
  noise,
  normWeight,
  writeCheckpoint,
} from './tiny-checkpoints.js';
import { join } from 'node:path';
import type { DrafterVariant } from './tiny-drafters.js';

export interface BlockShape {
  readonly layers?: number;
  readonly taps?: number;
  readonly hasOutput?: boolean;
  readonly draftTokens?: readonly number[] | undefined;
  readonly rank?: number;
  readonly hasConfidence?: boolean;
  readonly markov?: 'gated' | 'rnn' | undefined;
}

export function blockTensors(sizes: TinySizes, shape: BlockShape = {}): WritableTensors {
  const { layers = 2, taps = 2, draftTokens, rank, hasOutput = draftTokens !== undefined } = shape;
  const { hiddenSize, headCount, vocabularySize } = sizes;
  const random = createRandom(5, 'blocks');
  const world = createWorld(sizes);
  const meanTap = (row: number, column: number): number => (column % hiddenSize === row ? 1 / taps : 0);
  const tensors: Record<string, WritableTensor> = {
    'fc.weight': matrix(random, [hiddenSize, taps * hiddenSize], meanTap, 0.05),
    'hidden_norm.weight': normWeight(random, hiddenSize),
    'norm.weight': normWeight(random, hiddenSize),
  };
  for (let layer = 0; layer < layers; layer++) {
    Object.assign(tensors, layerTensors(`layers.${layer}`, sizes, random, { deviation: 0.08 }));
    for (const norm of ['q_norm', 'k_norm'])
      tensors[`layers.${layer}.self_attn.${norm}.weight`] = normWeight(random, hiddenSize / headCount);
  }
  Object.assign(tensors, copyingAttention(sizes, random));
  if (hasOutput) tensors['lm_head.weight'] = world.outputFor(1, random, draftTokens);
  if (draftTokens !== undefined) {
    const offsets = draftTokens.map((token, draft) => token - draft);
    tensors.d2t = { dtype: 'I64', shape: [offsets.length], values: offsets };
  }
  if (rank !== undefined) {
    tensors['markov_head.markov_w1.weight'] = noise(random, [vocabularySize, rank], 1);
    tensors['markov_head.markov_w2.weight'] = noise(random, [draftTokens?.length ?? vocabularySize, rank], 1);
  }
  if (shape.markov === 'gated') Object.assign(tensors, projection('gate_proj', rank!, hiddenSize + rank!));
  if (shape.markov === 'rnn')
    Object.assign(tensors, projection('joint_proj', 3 * rank!, 2 * rank! + hiddenSize));
  if (shape.hasConfidence === true) {
    tensors['confidence_head.proj.weight'] = noise(random, [1, hiddenSize + (rank ?? 0)], 0.3);
    tensors['confidence_head.proj.bias'] = noise(random, [1], 0.3);
  }
  return tensors;
}

function projection(name: string, outputs: number, inputs: number): WritableTensors {
  const random = createRandom(5, name);
  return {
    [`markov_head.${name}.weight`]: noise(random, [outputs, inputs], 1 / Math.sqrt(inputs)),
    [`markov_head.${name}.bias`]: noise(random, [outputs], 0.3),
  };
}

/** The first layer copies a part of what it sees, so that some drafts are right: masks alone say nothing. */
function copyingAttention(
  { hiddenSize, headCount, keyValueHeadCount }: TinySizes,
  random: Random,
): WritableTensors {
  const headSize = hiddenSize / headCount;
  const group = headCount / keyValueHeadCount;
  const valueOf = (row: number, column: number): number => (row === column ? 6 : 0);
  const outputOf = (row: number, column: number): number => {
    const head = Math.floor(column / headSize);
    return row === Math.floor(head / group) * headSize + (column % headSize) ? 1 / group : 0;
  };
  return {
    'layers.0.self_attn.v_proj.weight': matrix(
      random,
      [keyValueHeadCount * headSize, hiddenSize],
      valueOf,
      0.05,
    ),
    'layers.0.self_attn.o_proj.weight': matrix(random, [hiddenSize, hiddenSize], outputOf, 0.05),
  };
}

/** As z-lab writes it. `target_layer_ids` are outputs, so the taps are 2 and 4. */
export const dflashConfig = (sizes: TinySizes): Record<string, unknown> => ({
  ...llamaConfig({ ...sizes, layerCount: 2 }),
  ...{ architectures: ['DFlashDraftModel'], model_type: 'qwen3', block_size: 5 },
  ...{ num_target_layers: sizes.layerCount, layer_types: ['full_attention', 'full_attention'] },
  dflash_config: { mask_token_id: 3, target_layer_ids: [1, sizes.layerCount - 1] },
});

const dflash: DrafterVariant = {
  name: 'DFlash',
  kind: 'dflash',
  layout: 'DFlash head',
  maximumDepth: 4,
  write: (folder, sizes) =>
    writeCheckpoint(folder, 'model.safetensors', blockTensors(sizes), dflashConfig(sizes)),
};

export const writeMaskEmbedding = (folder: string, width: number, maskToken = 3): string => {
  const embedding = noise(createRandom(3, 'mask'), [width], 1);
  writeTorchFile(join(folder, 'mask_embedding.pt'), { embedding }, { mask_token_id: maskToken });
  return folder;
};

/** As vLLM's library writes it: inputs of layers, an output projection over a draft vocabulary, a sliding layer. */
const speculators: DrafterVariant = {
  ...dflash,
  name: 'DFlash in the speculators format',
  layout: 'DFlash head, speculators format',
  write(folder, sizes) {
    const draftTokens = Array.from({ length: sizes.vocabularySize }, (_, token) => token).filter(
      (token) => token % 3 !== 1,
    );
    return writeCheckpoint(folder, 'model.safetensors', blockTensors(sizes, { draftTokens, taps: 3 }), {
      ...{ architectures: ['DFlashSpeculator'], speculators_model_type: 'dflash', block_size: 5 },
      ...{ draft_vocab_size: draftTokens.length, mask_token_id: 3, aux_hidden_state_layer_ids: [0, 2, 3] },
      transformer_layer_config: {
        ...llamaConfig({ ...sizes, layerCount: 2 }),
        ...{ rope_theta: 50_000, layer_types: ['sliding_attention', 'full_attention'], sliding_window: 2048 },
      },
    });
  },
};

export const dsparkTensors = (sizes: TinySizes): WritableTensors =>
  blockTensors(sizes, { rank: 6, hasConfidence: true, hasOutput: true });

/** As DeepSpec writes it: every slot predicts the next token. */
export const dsparkConfig = (sizes: TinySizes): Record<string, unknown> => ({
  ...llamaConfig({ ...sizes, layerCount: 2 }),
  ...{ architectures: ['Qwen3DSparkModel'], model_type: 'qwen3', block_size: 4, num_anchors: 512 },
  ...{ mask_token_id: 3, target_layer_ids: [1, sizes.layerCount - 1], markov_rank: 6 },
  ...{ markov_head_type: 'vanilla', enable_confidence_head: true, confidence_head_with_markov: true },
});

const dspark = { kind: 'dspark', layout: 'DSpark head', maximumDepth: 4 };

export const blockVariants: readonly DrafterVariant[] = [
  dflash,
  {
    ...dflash,
    name: 'DFlash with a mask embedding and default taps',
    write(folder, sizes) {
      const config = { ...dflashConfig(sizes), dflash_config: undefined, mask_token_id: 3 };
      writeCheckpoint(folder, 'model.safetensors', blockTensors(sizes), config);
      return writeMaskEmbedding(folder, sizes.hiddenSize);
    },
  },
  speculators,
  {
    ...dspark,
    name: 'DSpark',
    write: (folder, sizes) =>
      writeCheckpoint(folder, 'model.safetensors', dsparkTensors(sizes), dsparkConfig(sizes)),
  },
  ...(['gated', 'rnn'] as const).map((markov) => ({
    ...dspark,
    name: `DSpark with a Markov head of the type ${markov}`,
    write: (folder: string, sizes: TinySizes) =>
      writeCheckpoint(
        folder,
        'model.safetensors',
        blockTensors(sizes, { rank: 6, hasConfidence: true, hasOutput: true, markov }),
        { ...dsparkConfig(sizes), markov_head_type: markov },
      ),
  })),
  {
    ...dspark,
    name: "DFlash of DSpark's class",
    layout: 'DSpark head without a Markov head: DFlash, shifted by one',
    write: (folder, sizes) =>
      writeCheckpoint(folder, 'model.safetensors', blockTensors(sizes, { hasOutput: true }), {
        ...dsparkConfig(sizes),
        markov_rank: 0,
      }),
  },
];
