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
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import { MistletoeError } from '../../core/errors.js';
import { showValue } from '../../core/json-text.js';
import type { ModelConfiguration } from '../../model/configuration.js';
import { layerRecipes, vectorRecipe } from '../../model/weights.js';
import { misfit, shapeOf } from '../reading/checks.js';
import type { KnownSizes } from '../reading/draft-configuration.js';
import {
  flattenConfig,
  isSpeculatorsFormat,
  readDraftConfiguration,
  readEagleSetting,
} from '../reading/draft-configuration.js';
import type { Refuse } from '../draft-system.js';
import { refuseAtOnce } from '../draft-system.js';
import { sizeIn } from '../reading/drafter-facts.js';
import type { FusionNorm } from './eagle-recipes.js';
import { embeddingRecipes, fusionNormRecipes, linearRecipes } from './eagle-recipes.js';
import { measureLayer } from '../reading/layer-sizes.js';
import { refuseUnusualPositions } from './head-positions.js';
import { listUnread } from '../reading/unread-tensors.js';

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

type TargetSizes = Pick<
  ModelConfiguration,
  'headCount' | 'keyValueHeadCount' | 'headSize' | 'vocabularySize' | 'hiddenSize' | 'contextLength'
>;

export interface EagleContext {
  readonly refuse?: Refuse;
  /** Stands in where config.json names no heads; without one they are as the tensors allow. */
  readonly target?: TargetSizes;
}

const incomplete = 'The file is incomplete: download it again.';

export function describeEagle(
  checkpoint: Checkpoint,
  scope: string,
  { refuse = refuseAtOnce, target }: EagleContext = {},
): EagleParts {
  const prefix = findPrefix(checkpoint);
  const layer = `${prefix}layers.0`;
  const common = describeCommon(checkpoint, { prefix, layer }, refuse, target);
  const { configuration, hasFusionBias, ownVocabulary, output, draftVocabulary, hasOutputBias } = common;
  const { hiddenSize } = configuration;
  if (checkpoint.config.bias === true && !hasFusionBias)
    refuse(misfit(checkpoint.folder, 'declares "bias": true and lacks fc.bias', incomplete));
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
  { refuse = refuseAtOnce, target }: EagleContext = {},
): Eagle3Parts {
  const { tensors, folder, config } = checkpoint;
  const prefix = findPrefix(checkpoint);
  const hasMidlayer = [...tensors.keys()].some((name) => name.startsWith(`${prefix}midlayer.`));
  const layer = hasMidlayer ? `${prefix}midlayer` : `${prefix}layers.0`;
  const common = describeCommon(checkpoint, { prefix, layer }, refuse, target);
  const { configuration, hasFusionBias, ownVocabulary, output, draftVocabulary, hasOutputBias } = common;
  const { hiddenSize } = configuration;
  if (draftVocabulary === undefined) refuse(misfit(folder, `lacks the tensor ${output}.weight`, incomplete));
  if (readEagleSetting(config, 'use_aux_hidden_state') === false) {
    refuse(
      misfit(
        folder,
        'asks for "use_aux_hidden_state": false',
        "An EAGLE-3 head that reads only the target's last feature is not supported.",
      ),
    );
  }
  const stateWidth = shapeOf(checkpoint, `${prefix}fc.weight`)[1] ?? 0;
  const isAsked = createAsker(checkpoint, refuse);
  const fusionNorm =
    isAsked('fc_norm') === true ? 'each' : isAsked('norm_before_fc') === true ? 'joined' : 'none';
  const tapWidth = target?.hiddenSize ?? sizeIn(flattenConfig(config), 'target_hidden_size') ?? hiddenSize;
  // As many as there can be: the widths are a stranger's.
  const taps = Math.min(Math.floor(stateWidth / tapWidth), tensors.size);
  const recipes = [
    ...fusionNormRecipes(scope, prefix, fusionNorm, { stateWidth, tapWidth, taps }),
    ...linearRecipes(`${scope}fc`, `${prefix}fc`, stateWidth, hiddenSize, hasFusionBias),
    vectorRecipe(`${scope}layer.hidden_norm.weight`, `${layer}.hidden_norm.weight`, hiddenSize),
    ...layerRecipes(`${scope}layer`, layer, configuration, { attentionInputSize: 2 * hiddenSize }),
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
    // vLLM reads a speculators head without the key as one that asks for it (vllm-project/vllm, pull request 25961).
    normBeforeResidual: isAsked('norm_before_residual') ?? isSpeculatorsFormat(config),
    feedsNormed: isAsked('norm_output') ?? false,
    recipes,
    unread: listUnread(checkpoint, recipes, [/^(model\.)?(d2t|t2d)$/]),
  };
}

const findPrefix = ({ tensors }: Checkpoint): string => (tensors.has('fc.weight') ? '' : 'model.');

interface Places {
  readonly prefix: string;
  readonly layer: string;
}

function describeCommon(
  checkpoint: Checkpoint,
  { prefix, layer }: Places,
  refuse: Refuse,
  target: TargetSizes | undefined,
) {
  const { tensors, config, folder } = checkpoint;
  const [hiddenSize = 1] = shapeOf(checkpoint, `${prefix}fc.weight`);
  const ownVocabulary = tensors.get(`${prefix}embed_tokens.weight`)?.shape[0];
  const measured = measureLayer(checkpoint, layer, hiddenSize);
  // Experts in the place of an MLP are told by what is missing, not by what nothing reads.
  if (target !== undefined) shapeOf(checkpoint, `${layer}.mlp.gate_proj.weight`);
  const known: KnownSizes = {
    ...measured,
    headCount: target?.headCount ?? measured.headCount,
    keyValueHeadCount: target?.keyValueHeadCount ?? measured.keyValueHeadCount,
    headSize: target?.headSize ?? measured.headSize,
    vocabularySize: target?.vocabularySize ?? ownVocabulary ?? 1,
  };
  const configuration = readConfiguration(checkpoint, known, refuse);
  // Without a target the two are compared by whoever lists what config.json and the tensors disagree on.
  if (target !== undefined && configuration.hiddenSize !== hiddenSize) {
    refuse(
      misfit(
        folder,
        `declares hidden_size ${configuration.hiddenSize}, but its fc has ${hiddenSize} rows`,
        'Take config.json and the weights from the same drafter.',
      ),
    );
  }
  const { num_hidden_layers: layers = 1, logit_scale: scale = 1 } = flattenConfig(config);
  // Tensors of further layers are refused by name; a file that lost them would run as one layer.
  if (layers !== 1)
    refuse(misfit(folder, `has ${showValue(layers)} layers`, 'A head of one layer is supported.'));
  if (scale !== 1) {
    const fault = `scales its logits by ${showValue(scale)}`;
    refuse(misfit(folder, fault, 'A head without "logit_scale" is supported.'));
  }
  refuseUnusualPositions(checkpoint, configuration, target, refuse);
  const { queryKeyValueBias, outputBias, queryKeyNorm } = measured;
  if (config.attention_bias === true && !queryKeyValueBias)
    refuse(misfit(folder, 'declares "attention_bias": true and lacks the biases', incomplete));
  const output = tensors.has('lm_head.weight') ? 'lm_head' : `${prefix}lm_head`;
  return {
    prefix,
    configuration: { ...configuration, hiddenSize, queryKeyValueBias, outputBias, queryKeyNorm },
    hasFusionBias: tensors.has(`${prefix}fc.bias`),
    ownVocabulary,
    output,
    draftVocabulary: tensors.get(`${output}.weight`)?.shape[0],
    hasOutputBias: tensors.has(`${output}.bias`),
  };
}

/** Where config.json cannot be read, sizes are the tensors', the norms' epsilon is any, and the rest is the default. */
function readConfiguration(checkpoint: Checkpoint, known: KnownSizes, refuse: Refuse): ModelConfiguration {
  try {
    return readDraftConfiguration(checkpoint, known);
  } catch (fault) {
    if (!(fault instanceof MistletoeError)) throw fault;
    refuse(fault);
    // An even head size, which is all that a configuration asks of it.
    const heads = { headCount: 1, keyValueHeadCount: 1, headSize: 2 };
    const { headCount, keyValueHeadCount, headSize } = known;
    const readable = readDraftConfiguration(
      { ...checkpoint, config: { rms_norm_eps: 1e-6 } },
      { ...known, ...heads },
    );
    return {
      ...readable,
      headCount: headCount ?? 1,
      keyValueHeadCount: keyValueHeadCount ?? 1,
      headSize: headSize ?? 2,
    };
  }
}

function createAsker({ config, folder }: Checkpoint, refuse: Refuse) {
  return (key: string): boolean | undefined => {
    const value = readEagleSetting(config, key);
    if (value === undefined || value === null || typeof value === 'boolean') return value ?? undefined;
    refuse(misfit(folder, `has "${key}": ${showValue(value)}`, 'true or false was expected.'));
    return undefined;
  };
}
