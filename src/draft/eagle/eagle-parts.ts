/**
 * The parts of an EAGLE or EAGLE-3 head, from its tensors and config.json, for loaders and `inspect`. Optional parts
 * of published heads:
 * embed_tokens, lm_head (EAGLE): own tables, which replace the target's
 * biases of fc, q/k/v, o_proj, lm_head
 * q_norm, k_norm: norms of queries and keys (Qwen3)
 * input_norm with norm_before_fc: one norm over the joined taps (EAGLE-3)
 * fc_norm.<i> with fc_norm: one norm per tap (EAGLE-3)
 * norm_before_residual, norm_output
 * layers.1, layers.2, ...: further layers (EAGLE-3)
 * mask_hidden: the state of rows that have no token yet (P-EAGLE)
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import { showValue } from '../../core/json-text.js';
import type { ModelConfiguration } from '../../model/configuration.js';
import { layerRecipes, linearRecipes, matrixRecipe, vectorRecipe } from '../../model/weights.js';
import type { DescribingContext } from '../draft-system.js';
import type { Refuse, Reject } from '../reading/checks.js';
import { incomplete, listUnread, refuseAtOnce, rejectBy, shapeOf } from '../reading/checks.js';
import type { Config } from '../reading/draft-configuration.js';
import { flattenConfig, isSpeculatorsFormat, readEagleSetting } from '../reading/draft-configuration.js';
import {
  describeLayers,
  isLayerCount,
  maxLayers,
  readLayerKinds,
  readMaskToken,
  sameOrigin,
  slidingKind,
} from '../reading/head-configuration.js';
import { sizeIn } from '../reading/drafter-reading.js';

/** One norm over all taps, or one per tap. */
type FusionNorm = 'none' | 'joined' | 'each';

function fusionNormRecipes(
  scope: string,
  prefix: string,
  norm: FusionNorm,
  { stateWidth, tapWidth, taps }: Readonly<Record<'stateWidth' | 'tapWidth' | 'taps', number>>,
): WeightRecipe[] {
  if (norm === 'none') return [];
  if (norm === 'joined')
    return [vectorRecipe(`${scope}input_norm.weight`, `${prefix}input_norm.weight`, stateWidth)];
  return Array.from({ length: taps }, (_, tap) =>
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

/** Positions that a row sees, including its own. */
interface HeadWindow {
  readonly length: number;
  /** Only in some layers: two masks would be needed beyond it, so drafts end there. */
  readonly isMixed: boolean;
}

export interface EagleParts {
  readonly prefix: string;
  readonly configuration: ModelConfiguration;
  /** Width of fc's input, without EAGLE's embedding. */
  readonly stateWidth: number;
  readonly hasFusionBias: boolean;
  readonly ownVocabulary: number | undefined;
  readonly draftVocabulary: number | undefined;
  readonly hasOutputBias: boolean;
  readonly window: HeadWindow | undefined;
  readonly recipes: readonly WeightRecipe[];
  readonly unread: readonly string[];
}

export interface Eagle3Parts extends EagleParts {
  readonly fusionNorm: FusionNorm;
  /** The residual stream starts with the normed state. */
  readonly normBeforeResidual: boolean;
  /** The next step reads the normed output. */
  readonly feedsNormed: boolean;
  readonly maskToken: number | undefined;
}

export function describeEagle(
  checkpoint: Checkpoint,
  scope: string,
  { refuse = refuseAtOnce, target }: DescribingContext = {},
): EagleParts {
  const reject = rejectBy(refuse, checkpoint);
  const prefix = findPrefix(checkpoint);
  const layer = `${prefix}layers.0`;
  const common = describeCommon(checkpoint, { prefix, layer }, { refuse, target });
  const { configuration, hasFusionBias, ownVocabulary, output, draftVocabulary, hasOutputBias } = common;
  const { hiddenSize, layerCount } = configuration;
  if (layerCount !== 1)
    reject(
      `has ${layerCount} layers`,
      'An EAGLE head of one layer is supported; EAGLE-3 heads may have several.',
    );
  if (checkpoint.config.bias === true && !hasFusionBias)
    reject('declares "bias": true and lacks fc.bias', incomplete);
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

export function describeEagle3(
  checkpoint: Checkpoint,
  scope: string,
  { refuse = refuseAtOnce, target }: DescribingContext = {},
): Eagle3Parts {
  const { tensors, config } = checkpoint;
  const reject = rejectBy(refuse, checkpoint);
  const prefix = findPrefix(checkpoint);
  const hasMidlayer = [...tensors.keys()].some((name) => name.startsWith(`${prefix}midlayer.`));
  const layer = hasMidlayer ? `${prefix}midlayer` : `${prefix}layers.0`;
  const common = describeCommon(checkpoint, { prefix, layer }, { refuse, target });
  const { configuration, hasFusionBias, ownVocabulary, output, draftVocabulary, hasOutputBias } = common;
  const { hiddenSize } = configuration;
  if (draftVocabulary === undefined) reject(`lacks the tensor ${output}.weight`, incomplete);
  if (readEagleSetting(config, 'use_aux_hidden_state') === false) {
    const hint = "An EAGLE-3 head that reads only the target's last feature is not supported.";
    reject('asks for "use_aux_hidden_state": false', hint);
  }
  const stateWidth = shapeOf(checkpoint, `${prefix}fc.weight`)[1] ?? 0;
  const isMasked = tensors.has(`${prefix}mask_hidden`);
  const isAsked = createAsker(config, reject);
  const fusionNorm =
    isAsked('fc_norm') === true ? 'each' : isAsked('norm_before_fc') === true ? 'joined' : 'none';
  const tapWidth = target?.hiddenSize ?? sizeIn(flattenConfig(config), 'target_hidden_size') ?? hiddenSize;
  // Bounded: widths come from an untrusted file.
  const taps = Math.min(Math.floor(stateWidth / tapWidth), tensors.size);
  const recipes = [
    ...fusionNormRecipes(scope, prefix, fusionNorm, { stateWidth, tapWidth, taps }),
    ...linearRecipes(`${scope}fc`, `${prefix}fc`, stateWidth, hiddenSize, hasFusionBias),
    vectorRecipe(`${scope}layer.hidden_norm.weight`, `${layer}.hidden_norm.weight`, hiddenSize),
    ...layerRecipes(`${scope}layer`, layer, configuration, { attentionInputSize: 2 * hiddenSize }),
    ...Array.from({ length: configuration.layerCount - 1 }, (_, index) =>
      layerRecipes(`${scope}layers.${index + 1}`, `${prefix}layers.${index + 1}`, configuration),
    ).flat(),
    ...(isMasked ? [maskRecipe(scope, prefix, stateWidth)] : []),
    vectorRecipe(`${scope}norm.weight`, `${prefix}norm.weight`, hiddenSize),
    ...(draftVocabulary === undefined
      ? []
      : linearRecipes(`${scope}lm_head`, output, hiddenSize, draftVocabulary, hasOutputBias)),
    ...embeddingRecipes(scope, prefix, ownVocabulary, hiddenSize),
  ];
  return {
    ...common,
    stateWidth,
    fusionNorm,
    // vLLM treats a speculators head without the key as true (vllm-project/vllm, pull request 25961), P-EAGLE's as false.
    normBeforeResidual: isAsked('norm_before_residual') ?? (isSpeculatorsFormat(config) && !isMasked),
    feedsNormed: isAsked('norm_output') ?? false,
    maskToken: isMasked ? readMaskToken(checkpoint, configuration.vocabularySize, refuse) : undefined,
    recipes,
    unread: listUnread(checkpoint, recipes, [/^(model\.)?(d2t|t2d)$/]),
  };
}

/** The state of rows that have no token yet (P-EAGLE). */
export function maskRecipe(scope: string, prefix: string, stateWidth: number): WeightRecipe {
  const shape = [1, 1, stateWidth];
  return { name: `${scope}mask_hidden`, shape, parts: [{ tensor: `${prefix}mask_hidden`, shape }] };
}

const findPrefix = ({ tensors }: Checkpoint): string => (tensors.has('fc.weight') ? '' : 'model.');

function describeCommon(
  checkpoint: Checkpoint,
  { prefix, layer }: { readonly prefix: string; readonly layer: string },
  { refuse, target }: { readonly refuse: Refuse; readonly target: ModelConfiguration | undefined },
) {
  const { tensors, config } = checkpoint;
  const reject = rejectBy(refuse, checkpoint);
  const [hiddenSize = 1] = shapeOf(checkpoint, `${prefix}fc.weight`);
  const ownVocabulary = tensors.get(`${prefix}embed_tokens.weight`)?.shape[0];
  // Experts instead of an MLP are reported by what is missing.
  if (target !== undefined) shapeOf(checkpoint, `${layer}.mlp.gate_proj.weight`);
  const vocabularySize = target?.vocabularySize ?? ownVocabulary ?? 1;
  const sizes = { hiddenSize, vocabularySize };
  const configuration = describeLayers(checkpoint, layer, sizes, { refuse, target });
  const { num_hidden_layers: layers = 1, logit_scale: scale = 1 } = flattenConfig(config);
  const isCounted = isLayerCount(layers);
  if (!isCounted)
    reject(`has "num_hidden_layers": ${showValue(layers)}`, `1 to ${maxLayers} layers are supported.`);
  if (scale !== 1)
    reject(`scales its logits by ${showValue(scale)}`, 'A head without "logit_scale" is supported.');
  if (config.attention_bias === true && !configuration.queryKeyValueBias)
    reject('declares "attention_bias": true and lacks the biases', incomplete);
  const output = tensors.has('lm_head.weight') ? 'lm_head' : `${prefix}lm_head`;
  return {
    prefix,
    configuration: { ...configuration, layerCount: isCounted ? layers : 1 },
    hasFusionBias: tensors.has(`${prefix}fc.bias`),
    ownVocabulary,
    output,
    draftVocabulary: tensors.get(`${output}.weight`)?.shape[0],
    hasOutputBias: tensors.has(`${output}.bias`),
    window: readWindow(config, isCounted ? layers : 1, reject),
  };
}

function createAsker(config: Config, reject: Reject) {
  return (key: string): boolean | undefined => {
    const value = readEagleSetting(config, key);
    if (value === undefined || value === null || typeof value === 'boolean') return value ?? undefined;
    reject(`has "${key}": ${showValue(value)}`, 'true or false was expected.');
    return undefined;
  };
}

/**
 * `layer_types` names the layers that have a window, else `sliding_window` gives one to all; configs derived from Qwen
 * switch it off by `use_sliding_window`.
 */
function readWindow(config: Config, layerCount: number, reject: Reject): HeadWindow | undefined {
  const { sliding_window: length, use_sliding_window: isUsed } = flattenConfig(config);
  const kinds = readLayerKinds(config, layerCount, reject);
  if (kinds === undefined) {
    if (isUsed === false || typeof length !== 'number') return undefined;
    return { length, isMixed: false };
  }
  const windowed = kinds.filter((kind) => kind === slidingKind).length;
  if (windowed === 0) return undefined;
  if (typeof length !== 'number' || isUsed === false) {
    const missing = isUsed === false ? 'switches it off by use_sliding_window' : 'has no sliding_window';
    reject(`asks for sliding attention in layer_types and ${missing}`, sameOrigin);
    return undefined;
  }
  return { length, isMixed: windowed < layerCount };
}
