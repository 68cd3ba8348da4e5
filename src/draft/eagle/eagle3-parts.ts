/**
 * The parts of an EAGLE-3 head, for loaders and `inspect`. Optional parts of published heads, besides those of EAGLE:
 * input_norm with norm_before_fc: one norm over the joined taps
 * fc_norm.<i> with fc_norm: one norm per tap
 * norm_before_residual: the residual stream starts with the normed state
 * norm_output: the normed output is fed back
 * layers.1, layers.2, ...: further, plain layers
 * mask_hidden: the state of rows that have no token yet (P-EAGLE)
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import { showValue } from '../../core/json-text.js';
import { layerRecipes, linearRecipes, vectorRecipe } from '../../model/weights.js';
import type { DescribingContext } from '../draft-system.js';
import { incomplete, listTraits, listUnread, shapeOf, startReading } from '../reading/checks.js';
import { isSpeculatorsFormat, sizeIn } from '../reading/draft-configuration.js';
import { readMaskToken } from '../reading/head-configuration.js';
import { describeParts, findPrefix, tableRecipes, traitsOf, type EagleParts } from './eagle-parts.js';
import { describeTaps } from './taps.js';

/** Of weight names. */
export const scope = 'eagle3.';

export interface Eagle3Parts extends EagleParts {
  /** Width of fc's input. */
  readonly stateWidth: number;
  readonly tapWidth: number;
  readonly fusionNorm: 'none' | 'joined' | 'each';
  readonly normBeforeResidual: boolean;
  readonly feedsNormed: boolean;
  /** Of P-EAGLE. */
  readonly maskToken: number | undefined;
}

export function describeEagle3(checkpoint: Checkpoint, context: DescribingContext = {}) {
  const reading = startReading(checkpoint, context);
  const { tensors, config, settings, target, reject } = reading;
  const prefix = findPrefix(reading);
  const hasMidlayer = [...tensors.keys()].some((name) => name.startsWith(`${prefix}midlayer.`));
  const common = describeParts(reading, prefix, hasMidlayer ? `${prefix}midlayer` : `${prefix}layers.0`);
  const { configuration, draftVocabulary } = common;
  const { hiddenSize, rotaryBase: base, rotaryOrigin: origin } = configuration;
  if (draftVocabulary === undefined) reject(`lacks the tensor ${common.output}.weight`, incomplete);
  if (settings.use_aux_hidden_state === false) {
    const hint = "An EAGLE-3 head that reads only the target's last feature is not supported.";
    reject('asks for "use_aux_hidden_state": false', hint);
  }
  const asks = (key: string): boolean | undefined => {
    const { [key]: value } = settings;
    if (value === undefined || typeof value === 'boolean') return value;
    reject(`has "${key}": ${showValue(value)}`, 'true or false was expected.');
    return undefined;
  };
  const isMasked = tensors.has(`${prefix}mask_hidden`);
  const joinedNorm = asks('norm_before_fc') === true ? 'joined' : 'none';
  const fusionNorm = asks('fc_norm') === true ? 'each' : joinedNorm;
  const targetHidden = sizeIn(settings, 'target_hidden_size') ?? hiddenSize;
  const parts: Eagle3Parts = {
    ...common,
    stateWidth: shapeOf(reading, `${prefix}fc.weight`)[1] ?? 0,
    tapWidth: target?.hiddenSize ?? targetHidden,
    fusionNorm,
    // vLLM treats a speculators head without the key as true (vllm-project/vllm, pull request 25961), P-EAGLE's as false.
    normBeforeResidual: asks('norm_before_residual') ?? (isSpeculatorsFormat(config) && !isMasked),
    feedsNormed: asks('norm_output') ?? false,
    maskToken: isMasked ? readMaskToken(reading, configuration.vocabularySize) : undefined,
  };
  const recipes = eagle3Recipes(parts, tensors.size);
  const taps = parts.stateWidth / targetHidden;
  const known = tensors.get('t2d') ?? tensors.get('model.t2d');
  return {
    parts,
    recipes,
    unread: listUnread(checkpoint, recipes, [/^(model\.)?(d2t|t2d)$/]),
    facts: {
      hiddenSize,
      draftVocabularySize: draftVocabulary,
      rotary: { base, origin },
      traits: listTraits([
        ...traitsOf(parts),
        [fusionNorm === 'joined', 'norm_before_fc'],
        [fusionNorm === 'each', 'fc_norm'],
        [parts.normBeforeResidual, 'norm_before_residual'],
        [parts.feedsNormed, 'norm_output'],
      ]),
      maskToken: parts.maskToken,
      expects: {
        hiddenSize: targetHidden,
        vocabularySize: known?.shape[0] ?? sizeIn(settings, 'vocab_size'),
        taps: Number.isInteger(taps) ? taps : undefined,
        tapRule: describeTaps(reading, context.taps),
      },
    },
  };
}

/** `maxNorms`: widths come from an untrusted file. */
export function eagle3Recipes(parts: Eagle3Parts, maxNorms = Infinity): WeightRecipe[] {
  const { prefix, layer, configuration, stateWidth, tapWidth, fusionNorm } = parts;
  const { hiddenSize } = configuration;
  const norm = (name: string, size: number): WeightRecipe =>
    vectorRecipe(`${scope}${name}.weight`, `${prefix}${name}.weight`, size);
  const taps = Math.min(Math.floor(stateWidth / tapWidth), maxNorms);
  const fusionNorms = {
    none: [],
    joined: [norm('input_norm', stateWidth)],
    each: Array.from({ length: taps }, (_, tap) => norm(`fc_norm.${tap}`, tapWidth)),
  };
  const maskShape = [1, 1, stateWidth];
  const mask = { tensor: `${prefix}mask_hidden`, shape: maskShape };
  return [
    ...fusionNorms[fusionNorm],
    ...linearRecipes(`${scope}fc`, `${prefix}fc`, stateWidth, hiddenSize, parts.hasFusionBias),
    vectorRecipe(`${scope}layer.hidden_norm.weight`, `${layer}.hidden_norm.weight`, hiddenSize),
    ...layerRecipes(`${scope}layer`, layer, configuration, { attentionInputSize: 2 * hiddenSize }),
    ...Array.from({ length: configuration.layerCount - 1 }, (_, index) =>
      layerRecipes(`${scope}layers.${index + 1}`, `${prefix}layers.${index + 1}`, configuration),
    ).flat(),
    ...(parts.maskToken === undefined
      ? []
      : [{ name: `${scope}mask_hidden`, shape: maskShape, parts: [mask] }]),
    norm('norm', hiddenSize),
    ...tableRecipes(scope, parts),
  ];
}
