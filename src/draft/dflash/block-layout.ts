/**
 * The parts of a DFlash or DSpark head, from its tensors and config.json, for loaders and `inspect`. Optional parts:
 * embed_tokens, lm_head: own tables, which replace the target's; with d2t, lm_head covers a draft vocabulary
 * mask_embedding: read in the place of the mask token's row; published as the file mask_embedding.pt
 * markov_head, confidence_head: DSpark's
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import {
  layerRecipes,
  linearRecipes,
  matrixRecipe,
  projectionRecipe,
  vectorRecipe,
} from '../../model/weights.js';
import type { DescribingContext, TensorNames } from '../draft-system.js';
import {
  incomplete,
  listTraits,
  listUnread,
  type Reading,
  shapeOf,
  startReading,
} from '../reading/checks.js';
import type { Config } from '../reading/draft-configuration.js';
import { describeLayers, type HeadTables } from '../reading/head-configuration.js';
import type { BlockAttention } from './block-settings.js';
import {
  architecturesOf,
  countLayers,
  describeBlockTaps,
  isShifted,
  readAttention,
  readBlockMask,
  readSlots,
  readThreshold,
  refuseVariants,
} from './block-settings.js';
import { markovRecipes, readMarkov, type MarkovParts } from './markov-head.js';

/** Of weight names. */
export const scope = 'dflash.';

/** What decides which tensors there are. */
export interface BlockTensors extends HeadTables {
  readonly stateWidth: number;
  readonly hasMaskEmbedding: boolean;
  /** Rows of its own lm_head. */
  readonly draftVocabulary: number | undefined;
  readonly markov: MarkovParts | undefined;
  readonly confidence: ConfidenceParts | undefined;
}

export interface BlockParts extends BlockTensors, BlockAttention {
  readonly slots: number;
  readonly firstSlot: 0 | 1;
  readonly maskToken: number;
  /** Of the confidence head. */
  readonly threshold: number | undefined;
}

interface ConfidenceParts {
  readonly width: number;
  readonly hasBias: boolean;
}

/** Undefined if the tensors are not those of a block drafter. */
export function recogniseBlocks(names: TensorNames, config: Config): 'dflash' | 'dspark' | undefined {
  const parts = ['fc.weight', 'hidden_norm.weight', 'layers.0.self_attn.q_proj.weight'];
  if (!parts.every((name) => names.has(name))) return undefined;
  const { speculators_model_type: type } = config;
  const isDSpark =
    names.some(/^(markov|confidence)_head\./) ||
    (typeof type === 'string' && /dspark/i.test(type)) ||
    architecturesOf(config).some((name) => name.includes('DSpark'));
  return isDSpark ? 'dspark' : 'dflash';
}

export function describeBlocks(checkpoint: Checkpoint, context: DescribingContext = {}) {
  const reading = startReading(checkpoint, context);
  const { tensors, target } = reading;
  refuseVariants(reading);
  const [hiddenSize = 1, stateWidth = 1] = shapeOf(reading, 'fc.weight');
  const ownVocabulary = tensors.get('embed_tokens.weight')?.shape[0];
  const draftVocabulary = tensors.get('lm_head.weight')?.shape[0];
  const [knownVocabulary] = tensors.get('t2d')?.shape ?? [];
  const stated = target?.vocabularySize ?? ownVocabulary ?? knownVocabulary ?? draftVocabulary ?? 1;
  const read = describeLayers(reading, 'layers.0', { hiddenSize, vocabularySize: stated });
  const layerCount = countLayers(reading);
  const vocabularySize = target?.vocabularySize ?? read.vocabularySize;
  const firstSlot = isShifted(reading) ? 0 : 1;
  const markov = readMarkov(reading);
  const confidence = readConfidence(reading, hiddenSize, markov?.rank);
  const parts: BlockParts = {
    configuration: { ...read, layerCount },
    stateWidth,
    ownVocabulary,
    draftVocabulary,
    hasMaskEmbedding: tensors.has('mask_embedding'),
    markov,
    confidence,
    ...readAttention(reading, layerCount),
    firstSlot,
    slots: readSlots(reading, firstSlot),
    threshold: confidence === undefined ? undefined : readThreshold(reading),
    maskToken: readBlockMask(reading, ownVocabulary ?? vocabularySize),
  };
  const recipes = blockRecipes(parts, vocabularySize);
  const taps = stateWidth / hiddenSize;
  return {
    parts,
    recipes,
    unread: listUnread(checkpoint, recipes, [/^(d2t|t2d)$/]),
    facts: {
      hiddenSize,
      heads: parts.slots - firstSlot,
      maskToken: parts.maskToken,
      draftVocabularySize: draftVocabulary ?? read.vocabularySize,
      rotary: { base: read.rotaryBase, origin: read.rotaryOrigin },
      traits: traitsOf(parts),
      expects: {
        hiddenSize,
        vocabularySize: read.vocabularySize,
        taps: Number.isInteger(taps) ? taps : undefined,
        tapRule: reading.attempt(() => describeBlockTaps(checkpoint)),
      },
    },
  };
}

function traitsOf(parts: BlockParts): readonly string[] {
  const { configuration, window, isCausal, ownVocabulary, draftVocabulary, hasMaskEmbedding, markov } = parts;
  return listTraits([
    [configuration.layerCount > 1, `${configuration.layerCount} layers`],
    [window !== undefined, `a sliding window of ${window ?? 0} positions, where drafts end`],
    [isCausal.includes(true), 'causal slots'],
    [ownVocabulary !== undefined, 'embeddings of its own'],
    [draftVocabulary !== undefined, 'an output projection of its own'],
    [hasMaskEmbedding, 'a mask embedding of its own'],
    [markov !== undefined, `a ${markov?.kind} Markov head of rank ${markov?.rank}`],
    [parts.confidence !== undefined && parts.threshold === undefined, 'a confidence head'],
    [parts.threshold !== undefined, `a confidence head that ends chains below ${parts.threshold ?? 0}`],
  ]);
}

export function blockRecipes(parts: BlockTensors, vocabularySize: number): WeightRecipe[] {
  const { configuration, stateWidth, hasMaskEmbedding, ownVocabulary, draftVocabulary } = parts;
  const { markov, confidence } = parts;
  const { hiddenSize, layerCount } = configuration;
  const draftSize = draftVocabulary ?? vocabularySize;
  return [
    projectionRecipe(`${scope}fc.weight`, 'fc.weight', stateWidth, hiddenSize),
    ...['hidden_norm', 'norm'].map((norm) =>
      vectorRecipe(`${scope}${norm}.weight`, `${norm}.weight`, hiddenSize),
    ),
    ...Array.from({ length: layerCount }, (_, layer) =>
      layerRecipes(`${scope}layers.${layer}`, `layers.${layer}`, configuration),
    ).flat(),
    ...(hasMaskEmbedding ? [vectorRecipe(`${scope}mask_embedding`, 'mask_embedding', hiddenSize)] : []),
    ...(ownVocabulary === undefined
      ? []
      : [matrixRecipe(`${scope}embed_tokens.weight`, 'embed_tokens.weight', [ownVocabulary, hiddenSize])]),
    ...(draftVocabulary === undefined
      ? []
      : linearRecipes(`${scope}lm_head`, 'lm_head', hiddenSize, draftVocabulary, false)),
    ...(markov === undefined ? [] : markovRecipes(scope, markov, { hiddenSize, vocabularySize, draftSize })),
    ...(confidence === undefined
      ? []
      : linearRecipes(`${scope}confidence`, 'confidence_head.proj', confidence.width, 1, confidence.hasBias)),
  ];
}

function readConfidence(
  { tensors, reject }: Reading,
  hiddenSize: number,
  rank: number | undefined,
): ConfidenceParts | undefined {
  const shape = tensors.get('confidence_head.proj.weight')?.shape;
  if (shape === undefined) return undefined;
  const [, width = 0] = shape;
  const expected = [hiddenSize, ...(rank === undefined ? [] : [hiddenSize + rank])];
  if (!expected.includes(width))
    reject(
      `has a confidence head that reads ${width} values; ${expected.join(' or ')} were expected`,
      incomplete,
    );
  return { width, hasBias: tensors.has('confidence_head.proj.bias') };
}
