/**
 * The parts of a DFlash or DSpark head, from its tensors and config.json, for loaders and `inspect`. Optional parts:
 * embed_tokens, lm_head: own tables, which replace the target's; with d2t, lm_head covers a draft vocabulary
 * mask_embedding: read in the place of the mask token's row; published as the file mask_embedding.pt
 * markov_head, confidence_head: DSpark's
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import { showValue } from '../../core/json-text.js';
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
import { type Config, measureLayer } from '../reading/draft-configuration.js';
import { readHeadConfiguration, refuseUnusualPositions } from '../reading/head-configuration.js';
import { readMaskToken } from '../reading/mask-token.js';
import type { BlockAttention } from './block-settings.js';
import {
  architecturesOf,
  countLayers,
  isShifted,
  readAttention,
  readBlockSetting,
  readSlots,
  readThreshold,
  refuseVariants,
} from './block-settings.js';

export interface BlockParts extends BlockAttention {
  readonly configuration: ModelConfiguration;
  /** Width of fc's input. */
  readonly stateWidth: number;
  readonly slots: number;
  readonly firstSlot: 0 | 1;
  readonly maskToken: number;
  readonly hasMaskEmbedding: boolean;
  readonly ownVocabulary: number | undefined;
  /** Rows of its own lm_head. */
  readonly draftVocabulary: number | undefined;
  /** Of the Markov head. */
  readonly rank: number | undefined;
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

const holdsBlocks = (names: TensorNames): boolean =>
  names.has('fc.weight') && names.has('hidden_norm.weight') && names.has('layers.0.self_attn.q_proj.weight');

const isDSpark = (names: TensorNames, config: Config): boolean =>
  names.some(/^(markov|confidence)_head\./) ||
  /dspark/i.test(String(config.speculators_model_type)) ||
  architecturesOf(config).some((name) => name.includes('DSpark'));

/** Undefined if the tensors are not those of a block drafter. */
export function recogniseBlocks(names: TensorNames, config: Config): 'dflash' | 'dspark' | undefined {
  if (!holdsBlocks(names)) return undefined;
  return isDSpark(names, config) ? 'dspark' : 'dflash';
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
  const measured = measureLayer(checkpoint, 'layers.0', hiddenSize);
  const ownVocabulary = tensors.get('embed_tokens.weight')?.shape[0];
  const draftVocabulary = tensors.get('lm_head.weight')?.shape[0];
  const [knownVocabulary] = tensors.get('t2d')?.shape ?? [];
  const read = readHeadConfiguration(refuse, checkpoint, {
    ...measured,
    vocabularySize: target?.vocabularySize ?? ownVocabulary ?? knownVocabulary ?? draftVocabulary ?? 1,
  });
  refuseUnusualPositions(read, target, reject);
  if (target !== undefined && read.hiddenSize !== hiddenSize)
    reject(
      `declares hidden_size ${read.hiddenSize}, but its fc has ${hiddenSize} rows`,
      'Take config.json and the weights from the same drafter.',
    );
  const layerCount = countLayers(checkpoint, reject);
  const { queryKeyValueBias, outputBias, queryKeyNorm } = measured;
  const configuration = {
    ...read,
    ...{ hiddenSize, queryKeyValueBias, outputBias, queryKeyNorm, layerCount },
  };
  const vocabularySize = target?.vocabularySize ?? configuration.vocabularySize;
  const firstSlot = isShifted(config) ? 0 : 1;
  const hasMaskEmbedding = tensors.has('mask_embedding');
  const rank = readMarkovRank(checkpoint, reject);
  const confidence = readConfidence(checkpoint, hiddenSize, rank, reject);
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
    ...markovRecipes(scope, rank, vocabularySize, draftVocabulary ?? vocabularySize),
    ...(confidence === undefined
      ? []
      : linearRecipes(`${scope}confidence`, 'confidence_head.proj', confidence.width, 1, confidence.hasBias)),
  ];
  return {
    configuration,
    ...readAttention(config, layerCount, reject),
    ...{ stateWidth, firstSlot, ownVocabulary, draftVocabulary, hasMaskEmbedding, rank, confidence },
    slots: readSlots(config, firstSlot, reject),
    threshold: confidence === undefined ? undefined : readThreshold(config, reject),
    maskToken: readMaskToken(checkpoint, ownVocabulary ?? vocabularySize, refuse),
    recipes,
    unread: listUnread(checkpoint, recipes, [/^(d2t|t2d)$/]),
  };
}

function readMarkovRank({ tensors, config }: Checkpoint, reject: Reject): number | undefined {
  const rank = tensors.get('markov_head.markov_w1.weight')?.shape[1];
  const kind = readBlockSetting(config, 'markov_head_type');
  const declared = readBlockSetting(config, 'markov_rank');
  if (rank === undefined) {
    if (typeof declared === 'number' && declared > 0)
      reject(`declares a Markov head of rank ${declared} and lacks it`, incomplete);
    return undefined;
  }
  if (kind !== undefined && kind !== 'vanilla')
    reject(
      `has a Markov head of the type ${showValue(kind)}, which is not supported`,
      'A Markov head of the type "vanilla" is supported.',
    );
  return rank;
}

function markovRecipes(
  scope: string,
  rank: number | undefined,
  vocabularySize: number,
  draftSize: number,
): WeightRecipe[] {
  if (rank === undefined) return [];
  return [
    matrixRecipe(`${scope}markov_w1`, 'markov_head.markov_w1.weight', [vocabularySize, rank]),
    projectionRecipe(`${scope}markov_w2`, 'markov_head.markov_w2.weight', rank, draftSize),
  ];
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
