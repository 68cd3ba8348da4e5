/**
 * What an EAGLE or EAGLE-3 head consists of, told by its tensors and its config.json alone, so that `inspect` and the
 * loaders agree. Beyond the tensors that every head has, published ones bring some of these:
 *
 *   embed_tokens, lm_head (EAGLE)       tables of their own, which win over the target's
 *   biases of fc, q/k/v, o_proj, lm_head
 *   q_norm, k_norm                      norms of queries and keys (Qwen3)
 *   input_norm        norm_before_fc    EAGLE-3: one norm over the joined taps
 *   fc_norm.<i>       fc_norm           EAGLE-3: one norm for each tap
 *   -                 norm_before_residual, norm_output
 */
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../checkpoint/weight-recipe.js';
import { showValue } from '../core/json-text.js';
import type { ModelConfiguration } from '../model/configuration.js';
import { layerRecipes, matrixRecipe, projectionRecipe, vectorRecipe } from '../model/weights.js';
import { misfit, shapeOf } from './checks.js';
import type { KnownSizes } from './draft-configuration.js';
import {
  flattenConfig,
  isSpeculatorsFormat,
  readDraftConfiguration,
  readEagleSetting,
} from './draft-configuration.js';
import { listUnread } from './unread-tensors.js';

export interface EagleParts {
  /** Before the names of its tensors. */
  readonly prefix: string;
  readonly configuration: ModelConfiguration;
  /** Values that one position's state has: fc's input, but for EAGLE's embedding. */
  readonly stateWidth: number;
  readonly hasFusionBias: boolean;
  /** Rows of its own table of embeddings. */
  readonly ownVocabulary: number | undefined;
  /** Rows of its own output projection. */
  readonly draftVocabulary: number | undefined;
  readonly hasOutputBias: boolean;
  readonly recipes: readonly WeightRecipe[];
  /** Tensors that nothing here reads. */
  readonly unread: readonly string[];
}

export interface Eagle3Parts extends EagleParts {
  readonly fusionNorm: FusionNorm;
  /** The residual stream of the layer begins with the normed state. */
  readonly normBeforeResidual: boolean;
  /** The next step is fed with what the output projection reads. */
  readonly feedsNormed: boolean;
}

/** Before the taps are fused: nothing, one norm over all of them, or one for each. */
export type FusionNorm = 'none' | 'joined' | 'each';

type TargetSizes = Pick<
  ModelConfiguration,
  'headCount' | 'keyValueHeadCount' | 'headSize' | 'vocabularySize'
> &
  Partial<Pick<ModelConfiguration, 'hiddenSize'>>;

const incomplete = 'The file is incomplete: download it again.';

/** `target` stands in where config.json names no heads; without one they have to be named. */
export function describeEagle(checkpoint: Checkpoint, scope: string, target?: TargetSizes): EagleParts {
  const prefix = findPrefix(checkpoint);
  const layer = `${prefix}layers.0`;
  const common = describeCommon(checkpoint, { prefix, layer }, target);
  const { configuration, hasFusionBias, ownVocabulary, output, draftVocabulary, hasOutputBias } = common;
  const { hiddenSize } = configuration;
  if (checkpoint.config.bias === true && !hasFusionBias)
    throw misfit(checkpoint.folder, 'declares "bias": true and lacks fc.bias', incomplete);
  const recipes = [
    ...linearRecipes(`${scope}fc`, `${prefix}fc`, 2 * hiddenSize, hiddenSize, hasFusionBias),
    ...layerRecipes(`${scope}layer`, layer, configuration, { inputNorm: false }),
    ...embeddingRecipes(scope, prefix, ownVocabulary, hiddenSize),
    ...(draftVocabulary === undefined
      ? []
      : linearRecipes(`${scope}lm_head`, output, hiddenSize, draftVocabulary, hasOutputBias)),
  ];
  return { ...common, stateWidth: hiddenSize, recipes, unread: listUnread(checkpoint, recipes) };
}

export function describeEagle3(checkpoint: Checkpoint, scope: string, target?: TargetSizes): Eagle3Parts {
  const { tensors, folder, config } = checkpoint;
  const prefix = findPrefix(checkpoint);
  const layer = tensors.has(`${prefix}midlayer.hidden_norm.weight`)
    ? `${prefix}midlayer`
    : `${prefix}layers.0`;
  const common = describeCommon(checkpoint, { prefix, layer }, target);
  const { configuration, hasFusionBias, ownVocabulary, output, draftVocabulary, hasOutputBias } = common;
  const { hiddenSize } = configuration;
  if (draftVocabulary === undefined) throw misfit(folder, `lacks the tensor ${output}.weight`, incomplete);
  if (readEagleSetting(config, 'use_aux_hidden_state') === false) {
    throw misfit(
      folder,
      'asks for "use_aux_hidden_state": false',
      "An EAGLE-3 head that reads only the target's last feature is not supported.",
    );
  }
  const stateWidth = shapeOf(checkpoint, `${prefix}fc.weight`)[1]!;
  const fusionNorm = readFusionNorm(checkpoint);
  const tapWidth = target?.hiddenSize ?? numberIn(config, 'target_hidden_size') ?? hiddenSize;
  const recipes = [
    ...fusionNormRecipes(scope, prefix, fusionNorm, stateWidth, tapWidth),
    ...linearRecipes(`${scope}fc`, `${prefix}fc`, stateWidth, hiddenSize, hasFusionBias),
    vectorRecipe(`${scope}layer.hidden_norm.weight`, `${layer}.hidden_norm.weight`, hiddenSize),
    ...layerRecipes(`${scope}layer`, layer, configuration, { attentionInputSize: 2 * hiddenSize }),
    vectorRecipe(`${scope}norm.weight`, `${prefix}norm.weight`, hiddenSize),
    ...linearRecipes(`${scope}lm_head`, output, hiddenSize, draftVocabulary, hasOutputBias),
    ...embeddingRecipes(scope, prefix, ownVocabulary, hiddenSize),
  ];
  return {
    ...common,
    stateWidth,
    fusionNorm,
    // vLLM reads a speculators head without the key as one that asks for it (vllm-project/vllm, pull request 25961).
    normBeforeResidual: isAsked(checkpoint, 'norm_before_residual') ?? isSpeculatorsFormat(config),
    feedsNormed: isAsked(checkpoint, 'norm_output') ?? false,
    recipes,
    unread: listUnread(checkpoint, recipes, [/^(model\.)?(d2t|t2d)$/]),
  };
}

const findPrefix = ({ tensors }: Checkpoint): string => (tensors.has('fc.weight') ? '' : 'model.');

interface Places {
  readonly prefix: string;
  readonly layer: string;
}

function describeCommon(checkpoint: Checkpoint, { prefix, layer }: Places, target: TargetSizes | undefined) {
  const { tensors, config, folder } = checkpoint;
  const hiddenSize = shapeOf(checkpoint, `${prefix}fc.weight`)[0]!;
  const [intermediateSize] = shapeOf(checkpoint, `${layer}.mlp.gate_proj.weight`);
  const ownVocabulary = tensors.get(`${prefix}embed_tokens.weight`)?.shape[0];
  const known: KnownSizes = {
    hiddenSize,
    intermediateSize: intermediateSize!,
    headCount: target?.headCount,
    keyValueHeadCount: target?.keyValueHeadCount,
    headSize: target?.headSize,
    vocabularySize: target?.vocabularySize ?? ownVocabulary ?? 1,
  };
  const configuration = readDraftConfiguration(checkpoint, known);
  if (configuration.hiddenSize !== hiddenSize) {
    throw misfit(
      folder,
      `declares hidden_size ${configuration.hiddenSize}, but its fc has ${hiddenSize} rows`,
      'Take config.json and the weights from the same drafter.',
    );
  }
  const { layer_types: kinds, num_hidden_layers: layers = 1, logit_scale: scale = 1 } = flattenConfig(config);
  // Tensors of further layers are refused by name; a file that lost them would run as one layer.
  if (layers !== 1)
    throw misfit(folder, `has ${showValue(layers)} layers`, 'A head of one layer is supported.');
  if (scale !== 1) {
    throw misfit(
      folder,
      `scales its logits by ${showValue(scale)}`,
      'A head without "logit_scale" is supported.',
    );
  }
  if (Array.isArray(kinds) && kinds.includes('sliding_attention')) {
    throw misfit(
      folder,
      'asks for sliding attention',
      'A head that sees only the last positions is not supported.',
    );
  }
  const has = (part: string): boolean => tensors.has(`${layer}.self_attn.${part}`);
  if (config.attention_bias === true && !has('q_proj.bias'))
    throw misfit(folder, 'declares "attention_bias": true and lacks the biases', incomplete);
  const output = tensors.has('lm_head.weight') ? 'lm_head' : `${prefix}lm_head`;
  return {
    prefix,
    configuration: {
      ...configuration,
      queryKeyValueBias: has('q_proj.bias'),
      outputBias: has('o_proj.bias'),
      queryKeyNorm: has('q_norm.weight'),
    },
    hasFusionBias: tensors.has(`${prefix}fc.bias`),
    ownVocabulary,
    output,
    draftVocabulary: tensors.get(`${output}.weight`)?.shape[0],
    hasOutputBias: tensors.has(`${output}.bias`),
  };
}

function readFusionNorm(checkpoint: Checkpoint): FusionNorm {
  if (isAsked(checkpoint, 'fc_norm') === true) return 'each';
  return isAsked(checkpoint, 'norm_before_fc') === true ? 'joined' : 'none';
}

function isAsked({ config, folder }: Checkpoint, key: string): boolean | undefined {
  const value = readEagleSetting(config, key);
  if (value === undefined || value === null || typeof value === 'boolean') return value ?? undefined;
  throw misfit(folder, `has "${key}": ${showValue(value)}`, 'true or false was expected.');
}

function fusionNormRecipes(
  scope: string,
  prefix: string,
  norm: FusionNorm,
  stateWidth: number,
  tapWidth: number,
): WeightRecipe[] {
  if (norm === 'none') return [];
  if (norm === 'joined')
    return [vectorRecipe(`${scope}input_norm.weight`, `${prefix}input_norm.weight`, stateWidth)];
  return Array.from({ length: stateWidth / tapWidth }, (_, tap) =>
    vectorRecipe(`${scope}fc_norm.${tap}.weight`, `${prefix}fc_norm.${tap}.weight`, tapWidth),
  );
}

function embeddingRecipes(
  scope: string,
  prefix: string,
  rows: number | undefined,
  hiddenSize: number,
): WeightRecipe[] {
  if (rows === undefined) return [];
  return [matrixRecipe(`${scope}embed_tokens.weight`, `${prefix}embed_tokens.weight`, [rows, hiddenSize])];
}

function linearRecipes(
  name: string,
  source: string,
  inputSize: number,
  outputSize: number,
  hasBias: boolean,
): WeightRecipe[] {
  return [
    projectionRecipe(`${name}.weight`, `${source}.weight`, inputSize, outputSize),
    ...(hasBias ? [vectorRecipe(`${name}.bias`, `${source}.bias`, outputSize)] : []),
  ];
}

function numberIn(config: Checkpoint['config'], key: string): number | undefined {
  const value = config[key];
  return typeof value === 'number' ? value : undefined;
}
