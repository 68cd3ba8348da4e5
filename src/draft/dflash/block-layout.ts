/**
 * The parts of a DFlash or DSpark head, from its tensors and config.json, for loaders and `inspect`. Optional parts:
 * embed_tokens, lm_head: own tables, which replace the target's; with d2t, lm_head covers a draft vocabulary
 * mask_embedding: read in the place of the mask token's row; published as the file mask_embedding.pt
 * markov_head, confidence_head: DSpark's
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import type { ModelConfiguration } from '../../model/configuration.js';
import {
  layerRecipes,
  linearRecipes,
  matrixRecipe,
  projectionRecipe,
  vectorRecipe,
} from '../../model/weights.js';
import type { DescribingContext, TensorNames } from '../draft-system.js';
import { type Reject, incomplete, listUnread, refuseAtOnce, rejectBy, shapeOf } from '../reading/checks.js';
import type { Config } from '../reading/draft-configuration.js';
import { describeLayers, readMaskToken } from '../reading/head-configuration.js';
import { markovRecipes, readMarkov, type MarkovParts } from './markov-head.js';
import type { BlockAttention } from './block-settings.js';
import {
  architecturesOf,
  countLayers,
  isShifted,
  readAttention,
  readSlots,
  readThreshold,
  refuseVariants,
} from './block-settings.js';

export interface BlockParts extends BlockAttention {
  readonly configuration: ModelConfiguration;
  readonly stateWidth: number;
  readonly slots: number;
  readonly firstSlot: 0 | 1;
  readonly maskToken: number;
  readonly hasMaskEmbedding: boolean;
  readonly ownVocabulary: number | undefined;
  /** Rows of its own lm_head. */
  readonly draftVocabulary: number | undefined;
  readonly markov: MarkovParts | undefined;
  readonly confidence: ConfidenceParts | undefined;
  /** Of the confidence head. */
  readonly threshold: number | undefined;
  readonly recipes: readonly WeightRecipe[];
  readonly unread: readonly string[];
}

interface ConfidenceParts {
  readonly width: number;
  readonly hasBias: boolean;
}

/** Undefined if the tensors are not those of a block drafter. */
export function recogniseBlocks(names: TensorNames, config: Config): 'dflash' | 'dspark' | undefined {
  const parts = ['fc.weight', 'hidden_norm.weight', 'layers.0.self_attn.q_proj.weight'];
  if (!parts.every((name) => names.has(name))) return undefined;
  const isDSpark =
    names.some(/^(markov|confidence)_head\./) ||
    /dspark/i.test(String(config.speculators_model_type)) ||
    architecturesOf(config).some((name) => name.includes('DSpark'));
  return isDSpark ? 'dspark' : 'dflash';
}

export function describeBlocks(
  checkpoint: Checkpoint,
  scope: string,
  { refuse = refuseAtOnce, target }: DescribingContext = {},
): BlockParts {
  const { tensors, config } = checkpoint;
  const reject = rejectBy(refuse, checkpoint);
  refuseVariants(config, tensors, reject);
  const [hiddenSize = 1, stateWidth = 1] = shapeOf(checkpoint, 'fc.weight');
  const ownVocabulary = tensors.get('embed_tokens.weight')?.shape[0];
  const draftVocabulary = tensors.get('lm_head.weight')?.shape[0];
  const [knownVocabulary] = tensors.get('t2d')?.shape ?? [];
  const stated = target?.vocabularySize ?? ownVocabulary ?? knownVocabulary ?? draftVocabulary ?? 1;
  const sizes = { hiddenSize, vocabularySize: stated };
  const read = describeLayers(checkpoint, 'layers.0', sizes, { refuse, target });
  const layerCount = countLayers(checkpoint, reject);
  const configuration = { ...read, layerCount };
  const vocabularySize = target?.vocabularySize ?? configuration.vocabularySize;
  const firstSlot = isShifted(config) ? 0 : 1;
  const hasMaskEmbedding = tensors.has('mask_embedding');
  const markov = readMarkov(checkpoint, reject);
  const confidence = readConfidence(checkpoint, hiddenSize, markov?.rank, reject);
  const recipes = [
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
    ...(markov === undefined
      ? []
      : markovRecipes(scope, markov, {
          hiddenSize,
          vocabularySize,
          draftSize: draftVocabulary ?? vocabularySize,
        })),
    ...(confidence === undefined
      ? []
      : linearRecipes(`${scope}confidence`, 'confidence_head.proj', confidence.width, 1, confidence.hasBias)),
  ];
  return {
    configuration,
    ...readAttention(config, layerCount, reject),
    stateWidth,
    firstSlot,
    ownVocabulary,
    draftVocabulary,
    hasMaskEmbedding,
    markov,
    confidence,
    slots: readSlots(config, firstSlot, reject),
    threshold: confidence === undefined ? undefined : readThreshold(config, reject),
    maskToken: readMaskToken(checkpoint, ownVocabulary ?? vocabularySize, refuse),
    recipes,
    unread: listUnread(checkpoint, recipes, [/^(d2t|t2d)$/]),
  };
}

function readConfidence(
  checkpoint: Checkpoint,
  hiddenSize: number,
  rank: number | undefined,
  reject: Reject,
): ConfidenceParts | undefined {
  const { tensors } = checkpoint;
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
