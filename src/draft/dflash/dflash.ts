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
import { constant, weight, type Tensor } from '../../graph/tensor.js';
import { concatenate, reshape } from '../../graph/operations/shaping.js';
import type { CausalModel } from '../../model/causal-model.js';
import { embeddingTable, project, projectToVocabulary } from '../../model/decoder.js';
import { createRotary } from '../../model/rotary/rotary.js';
import type { DrafterDescription, DrafterFacts, DrafterOptions, WeightedSystem } from '../draft-system.js';
import { prepareDrafterWeights } from '../draft-system.js';
import type { Drafter } from '../drafter.js';
import {
  anotherTarget,
  countParameters,
  misfit,
  requireSizes,
  requireWidth,
  unlessRefused,
  type Refuse,
} from '../reading/checks.js';
import { isSpeculatorsFormat } from '../reading/draft-configuration.js';
import { readVocabularyMap } from '../reading/head-configuration.js';
import { createBlockDrafter } from './block-drafter.js';
import type { BlockHead } from './block-graph.js';
import { describeBlocks, recogniseBlocks, type BlockParts } from './block-layout.js';
import { describeBlockTaps, readBlockTaps } from './block-settings.js';
import { createMarkov } from './markov-head.js';
import { createDflash, createDspark, decayOf, defaultHeads } from './new-dflash.js';

const scope = 'dflash.';

export const dflash: WeightedSystem = {
  name: 'dflash',
  title: 'DFlash',
  recognise: (names, config = {}) =>
    recogniseBlocks(names, config) === 'dflash'
      ? { layout: isSpeculatorsFormat(config) ? 'DFlash head, speculators format' : 'DFlash head' }
      : undefined,
  describe: describeSystem,
  load: (checkpoint, options) => loadBlocks(checkpoint, options, { system: 'dflash', name: 'DFlash' }),
  training: {
    sizes: ['heads', 'layers'],
    heads: defaultHeads,
    settings: (levels) => ({ depth: levels, decay: decayOf(levels) }),
    create: createDflash,
  },
};

export const dspark: WeightedSystem = {
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
  describe: describeSystem,
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

function describeSystem(checkpoint: Checkpoint, refuse: Refuse): DrafterDescription {
  const parts = describeBlocks(checkpoint, '', { refuse });
  return { ...parts, facts: describeFacts(checkpoint, parts, refuse) };
}

function describeFacts(checkpoint: Checkpoint, parts: BlockParts, refuse: Refuse): DrafterFacts {
  const { configuration, stateWidth, draftVocabulary, slots, firstSlot, maskToken } = parts;
  const { hiddenSize, vocabularySize, rotaryBase: base, rotaryOrigin: origin } = configuration;
  const taps = stateWidth / hiddenSize;
  return {
    hiddenSize,
    heads: slots - firstSlot,
    maskToken,
    draftVocabularySize: draftVocabulary ?? vocabularySize,
    rotary: { base, origin },
    traits: listTraits(parts),
    expects: {
      hiddenSize,
      vocabularySize,
      taps: Number.isInteger(taps) ? taps : undefined,
      tapRule: unlessRefused(refuse, () => describeBlockTaps(checkpoint)),
    },
  };
}

function listTraits(parts: BlockParts): readonly string[] {
  const { configuration, window, isCausal, ownVocabulary, draftVocabulary, hasMaskEmbedding, markov } = parts;
  const traits: readonly (readonly [boolean, string])[] = [
    [configuration.layerCount > 1, `${configuration.layerCount} layers`],
    [window !== undefined, `a sliding window of ${window ?? 0} positions, where drafts end`],
    [isCausal.includes(true), 'causal slots'],
    [ownVocabulary !== undefined, 'embeddings of its own'],
    [draftVocabulary !== undefined, 'an output projection of its own'],
    [hasMaskEmbedding, 'a mask embedding of its own'],
    [markov !== undefined, `a ${markov?.kind} Markov head of rank ${markov?.rank}`],
    [parts.confidence !== undefined && parts.threshold === undefined, 'a confidence head'],
    [parts.threshold !== undefined, `a confidence head that ends chains below ${parts.threshold ?? 0}`],
  ];
  return traits.flatMap(([has, trait]) => (has ? [trait] : []));
}

async function loadBlocks(
  checkpoint: Checkpoint,
  options: DrafterOptions,
  described: Pick<Drafter, 'system' | 'name'>,
): Promise<Drafter> {
  const { target } = options;
  const { folder } = checkpoint;
  requireSizes(checkpoint, target);
  const parts = describeBlocks(checkpoint, scope, { target: target.configuration });
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
  const weights = await prepareDrafterWeights(checkpoint, parts, options);
  const embedding = embeddingOf(checkpoint, parts, target);
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
      reach: Math.min(contextLength, window ?? contextLength),
      hasWindow: window !== undefined && window < contextLength,
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

function embeddingOf(
  { folder }: Checkpoint,
  { ownVocabulary, configuration: { hiddenSize } }: BlockParts,
  { configuration, scope: targetScope }: CausalModel,
): Tensor {
  const { vocabularySize } = configuration;
  if (ownVocabulary === undefined) return embeddingTable(configuration, targetScope);
  if (ownVocabulary >= vocabularySize)
    return weight(`${scope}embed_tokens.weight`, [ownVocabulary, hiddenSize]);
  throw misfit(
    folder,
    `has embeddings of its own for ${ownVocabulary} tokens; the target has ${vocabularySize}`,
    anotherTarget,
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
