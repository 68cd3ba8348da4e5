/**
 * DFlash (github.com/z-lab/dflash): layers of the Qwen3 form fill a block of masks behind the last token in one pass; a slot
 * predicts the token at its own position. Their keys and values of the text come from the target's tapped states, which
 * fc fuses. Embeddings and output projection are the target's.
 *
 * DSpark (arXiv 2607.05147) is the same, but a slot predicts the next token, and a Markov head adds scores that depend
 * on the previous token.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { concatenate, reshape } from '../../graph/operations/shaping.js';
import { constant, weight } from '../../graph/tensor.js';
import { project, projectToVocabulary } from '../../model/decoder.js';
import { createRotary } from '../../model/rotary/rotary.js';
import type { DrafterOptions, FreshDrafter, DraftSystem } from '../draft-system.js';
import type { Drafter } from '../drafter.js';
import { makeFresh, type NewCheckpoint, type Start } from '../fresh/fresh-tensors.js';
import { headConfig, type NewTarget } from '../fresh/new-target.js';
import {
  anotherTarget,
  countParameters,
  misfit,
  prepareDrafterWeights,
  requireWidth,
} from '../reading/checks.js';
import { isSpeculatorsFormat } from '../reading/draft-configuration.js';
import { embeddingOf, readVocabularyMap } from '../reading/head-configuration.js';
import { createBlockDrafter } from './block-drafter.js';
import type { BlockHead } from './block-graph.js';
import {
  blockRecipes,
  describeBlocks,
  recogniseBlocks,
  scope,
  type BlockParts,
  type BlockTensors,
} from './block-layout.js';
import { readBlockTaps, spreadTaps } from './block-settings.js';
import { createMarkov } from './markov-head.js';

/** Drafted tokens of a block. */
const defaultHeads = 7;
/** About the weights of an EAGLE-3 head. */
const defaultLayers = 2;

/** Weight of a level relative to the previous one: exp(-1 / 4) in short blocks, exp(-1 / 7) in long ones. */
const decayOf = (levels: number): number => (levels > 8 ? 0.867 : 0.779);

export const dflash: DraftSystem = {
  name: 'dflash',
  title: 'DFlash',
  recognise: (names, config = {}) =>
    recogniseBlocks(names, config) === 'dflash'
      ? { layout: isSpeculatorsFormat(config) ? 'DFlash head, speculators format' : 'DFlash head' }
      : undefined,
  describe: describeBlocks,
  load: (checkpoint, options) => loadBlocks(checkpoint, options, { system: 'dflash', name: 'DFlash' }),
  training: {
    sizes: ['heads', 'layers'],
    heads: defaultHeads,
    settings: (levels) => ({ depth: levels, decay: decayOf(levels) }),
    create: createDflash,
  },
};

export const dspark: DraftSystem = {
  name: 'dspark',
  title: 'DSpark',
  recognise: (names, config = {}) =>
    recogniseBlocks(names, config) === 'dspark'
      ? {
          layout: names.some(/^markov_head\./)
            ? 'DSpark head'
            : 'DSpark head without a Markov head: DFlash, shifted by one',
        }
      : undefined,
  describe: describeBlocks,
  load: (checkpoint, options) => loadBlocks(checkpoint, options, { system: 'dspark', name: 'DSpark' }),
  training: {
    sizes: ['heads', 'layers'],
    heads: defaultHeads,
    settings: (levels) => ({
      depth: levels,
      decay: decayOf(levels),
      labels: 'tokens',
      labelWeight: 0.1,
      distanceWeight: 0.9,
      confidenceWeight: 1,
    }),
    create: createDspark,
  },
};

async function loadBlocks(
  checkpoint: Checkpoint,
  options: DrafterOptions,
  described: Pick<Drafter, 'system' | 'name'>,
): Promise<Drafter> {
  const { target } = options;
  const { folder } = checkpoint;
  const description = describeBlocks(checkpoint, { target: target.configuration });
  const { parts } = description;
  const { configuration: sizes, stateWidth, window, slots, firstSlot, isCausal, draftVocabulary } = parts;
  const { vocabularySize, layerCount, contextLength, hiddenSize } = target.configuration;
  if (sizes.hiddenSize !== hiddenSize && (parts.ownVocabulary ?? draftVocabulary) === undefined)
    throw misfit(
      folder,
      `is ${sizes.hiddenSize} wide, its target ${hiddenSize}, and it has no embed_tokens and lm_head of its own`,
      anotherTarget,
    );
  const taps = readBlockTaps(checkpoint, layerCount, sizes.layerCount);
  requireWidth(checkpoint, 'fc.weight', 1, taps.length * hiddenSize);
  const draftSize = draftVocabulary ?? vocabularySize;
  const targetTokens = await readVocabularyMap(checkpoint, draftSize, vocabularySize);
  const weights = await prepareDrafterWeights(checkpoint, description, options);
  const embedding = embeddingOf(folder, scope, parts, target, true);
  return createBlockDrafter(
    {
      scope,
      sizes,
      stateWidth,
      slots,
      firstSlot,
      isCausal,
      embedding,
      runtime: target.runtime,
      weights: [weights, target.weights],
      rotary: createRotary(sizes),
      vocabularies: { targetSize: vocabularySize, draftSize, targetTokens },
      mask: parts.hasMaskEmbedding
        ? reshape(weight(`${scope}mask_embedding`, [sizes.hiddenSize]), [1, sizes.hiddenSize])
        : gatherRows(embedding, constant([parts.maskToken], [1], 'int32')),
      reach: contextLength,
      windowEnd: window !== undefined && window < contextLength ? window : undefined,
      markov:
        parts.markov &&
        createMarkov(scope, parts.markov, { hiddenSize: sizes.hiddenSize, vocabularySize, draftSize }),
      score: (features) =>
        draftVocabulary === undefined
          ? projectToVocabulary(target.configuration, target.scope, features)
          : project(features, `${scope}lm_head`, sizes.hiddenSize, draftVocabulary),
      confidence: createConfidence(parts),
      // Without a threshold in config.json, nothing is cut.
      threshold: parts.threshold,
    },
    { ...described, taps, parameterCount: countParameters(weights) },
  );
}

function createConfidence({ confidence, configuration, markov }: BlockParts): BlockHead['confidence'] {
  if (confidence === undefined) return undefined;
  const { width, hasBias } = confidence;
  const readsPrevious = width > configuration.hiddenSize && markov !== undefined;
  return (features, previous) =>
    project(
      readsPrevious ? concatenate([features, previous!], -1) : features,
      `${scope}confidence`,
      width,
      1,
      hasBias,
    );
}

/** A DFlash head in z-lab's layout: Qwen3 layers of the target's sizes. */
function createDflash(target: NewTarget, shape: FreshDrafter): NewCheckpoint {
  const { parts, config } = planBlocks(target, shape);
  return { config, tensors: makeFresh(target, blockRecipes(parts, target.configuration.vocabularySize)) };
}

/** Published heads have rank 256 at widths from 2560; without embeddings and output of its own, as engines allow. */
function createDspark(target: NewTarget, shape: FreshDrafter): NewCheckpoint {
  const { parts: plain, config } = planBlocks(target, shape);
  const { dflash_config: nested, ...others } = config;
  const { hiddenSize, vocabularySize } = target.configuration;
  const rank = Math.min(256, Math.max(1, Math.floor(hiddenSize / 4)));
  const parts: BlockTensors = {
    ...plain,
    markov: { rank, kind: 'vanilla' },
    confidence: { width: hiddenSize + rank, hasBias: true },
  };
  const startOf = (name: string): Start | undefined => {
    if (name.includes('markov_w2')) return 'zeros';
    return name.includes('markov_w1') ? { deviation: 1 / Math.sqrt(rank) } : undefined;
  };
  return {
    config: {
      ...others,
      ...nested,
      architectures: ['Qwen3DSparkModel'],
      block_size: config.block_size - 1,
      num_anchors: 512,
      markov_rank: rank,
      markov_head_type: 'vanilla',
      enable_confidence_head: true,
      confidence_head_with_markov: true,
    },
    tensors: makeFresh(target, blockRecipes(parts, vocabularySize), startOf),
  };
}

function planBlocks(target: NewTarget, { heads = defaultHeads, layers = defaultLayers }: FreshDrafter) {
  const { hiddenSize, layerCount } = target.configuration;
  const norms = { queryKeyValueBias: false, outputBias: false, queryKeyNorm: true };
  const configuration = { ...target.configuration, ...norms, layerCount: layers };
  const taps = chooseTaps(layerCount, layers);
  const parts: BlockTensors = {
    configuration,
    stateWidth: taps.length * hiddenSize,
    hasMaskEmbedding: false,
    ownVocabulary: undefined,
    draftVocabulary: undefined,
    markov: undefined,
    confidence: undefined,
  };
  const config = {
    ...headConfig(target, { ...configuration, layers }),
    architectures: ['DFlashDraftModel'],
    model_type: 'qwen3',
    num_target_layers: layerCount,
    block_size: heads + 1,
    dflash_config: { mask_token_id: target.maskToken, target_layer_ids: taps },
  };
  return { parts, config };
}

const minTaps = 3;

/** Outputs of layers. Shallow targets have fewer to choose from. */
function chooseTaps(targetLayers: number, layers: number): readonly number[] {
  const spread = spreadTaps(targetLayers, Math.max(minTaps, layers));
  const last = targetLayers - 1;
  const within = spread.map((layer) => Math.min(last, Math.max(0, layer)));
  return [...new Set(within)].sort((one, other) => one - other);
}
