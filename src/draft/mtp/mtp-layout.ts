/** The tensors of an MTP module: MiMo's layout, and those of other families, which are refused by name. */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import type { MistletoeError } from '../../core/errors.js';
import { showValue } from '../../core/json-text.js';
import type { LayerSizes } from '../../model/decoder.js';
import { layerRecipes, projectionRecipe, vectorRecipe } from '../../model/weights.js';
import {
  holdsDecoder,
  namesOf,
  type DescribingContext,
  type RecognisedLayout,
  type TensorNames,
} from '../draft-system.js';
import { makeFresh, type NewCheckpoint } from '../fresh/fresh-tensors.js';
import { headConfig, type NewTarget } from '../fresh/new-target.js';
import { listUnread, misfit, refuseAtOnce, rejectBy } from '../reading/checks.js';
import { flattenConfig, type Config } from '../reading/draft-configuration.js';
import { sizeIn } from '../reading/drafter-reading.js';
import { describeLayers } from '../reading/head-configuration.js';

const module = 'model.mtp_layers.0';
export const fusionName = `${module}.input_proj.weight`;

interface OtherFamily {
  readonly name: string;
  /** Why it does not run. */
  readonly reason: string;
  readonly isSeen: (names: TensorNames, config: Config) => boolean;
}

const otherFamilies: readonly OtherFamily[] = [
  {
    name: 'DeepSeek-V3 or GLM',
    reason: 'its target has shared experts, which no family here has',
    isSeen: (names) => names.some(/(^|\.)layers\.\d+\.eh_proj\.weight$/),
  },
  {
    name: 'EXAONE 4.5',
    reason: 'the layers of its target have a form of their own, which no family here has',
    isSeen: (names, { architectures, model_type: type }) =>
      names.some(/^mtp\./) && /exaone/i.test(JSON.stringify([architectures, type])),
  },
  {
    name: 'Qwen3-Next or Qwen3.5',
    reason: 'its target mixes linear attention into its layers',
    isSeen: (names) => names.some(/^mtp\.(fc|pre_fc_norm_(embedding|hidden))\.weight$/),
  },
  {
    name: "Gemma 4's assistant",
    reason: "it reads the target's key-value cache in the place of one of its own",
    isSeen: (_, { architectures, model_type: type }) =>
      type === 'gemma4_assistant' || /gemma4assistant/i.test(JSON.stringify(architectures ?? [])),
  },
];

const isMimo = (names: TensorNames): boolean => names.some(/^model\.mtp_layers\.\d+\./);

export function recogniseMtp(names: TensorNames, config: Config = {}): RecognisedLayout | undefined {
  if (isMimo(names))
    return holdsDecoder(names)
      ? { layout: 'language model with an MTP module of MiMo', isTarget: true }
      : { layout: 'MTP module of MiMo' };
  const other = otherFamilies.find(({ isSeen }) => isSeen(names, config));
  const isTarget = names.some(/(^|\.)embed_tokens\.weight$/) && names.some(/(^|\.)layers\.0\./);
  return other && { layout: `MTP module of ${other.name}, which is not supported`, isTarget };
}

/** The refusal of a module that is not MiMo's. */
export function findOtherFamily(checkpoint: Checkpoint): MistletoeError | undefined {
  const names = namesOf(checkpoint);
  if (isMimo(names)) return undefined;
  const other = otherFamilies.find(({ isSeen }) => isSeen(names, checkpoint.config));
  if (other === undefined) return undefined;
  return misfit(
    checkpoint.folder,
    `has the MTP module of ${other.name}, which is not supported: ${other.reason}`,
    "MiMo's module (model.mtp_layers.0) is supported.",
  );
}

export function describeMtp(
  checkpoint: Checkpoint,
  scope: string,
  { refuse = refuseAtOnce, target }: DescribingContext = {},
) {
  const { tensors } = checkpoint;
  const names = namesOf(checkpoint);
  const reject = rejectBy(refuse, checkpoint);
  const config = flattenConfig(checkpoint.config);
  const { num_nextn_predict_layers: modules = 1, use_sliding_window: hasWindow } = config;
  if (modules !== 1 || names.some(/^model\.mtp_layers\.[1-9]/))
    reject(
      modules === 1 ? 'has several MTP modules' : `has "num_nextn_predict_layers": ${showValue(modules)}`,
      'One MTP module, which drafts every level, is supported.',
    );
  if (hasWindow === true)
    reject('asks for "use_sliding_window": true', 'An MTP module without a sliding window is supported.');
  const hiddenSize = target?.hiddenSize ?? tensors.get(fusionName)?.shape[0] ?? 1;
  const vocabularySize = sizeIn(config, 'vocab_size');
  const sizes = { hiddenSize, vocabularySize: target?.vocabularySize ?? vocabularySize ?? 1 };
  const configuration = describeLayers(checkpoint, module, sizes, { refuse, target });
  const recipes = mtpRecipes(scope, configuration);
  const { rotaryBase: base, rotaryOrigin: origin } = configuration;
  return {
    configuration,
    ...{ stateWidth: hiddenSize, ownVocabulary: undefined, window: undefined },
    recipes,
    // In the target's own checkpoint, or beside copies of its tables.
    unread: listUnread(
      checkpoint,
      recipes,
      holdsDecoder(names) ? [/^(?!model\.mtp_layers\.)/] : [/^(model\.(embed_tokens|norm)|lm_head)\.weight$/],
    ),
    facts: {
      hiddenSize,
      draftVocabularySize: vocabularySize,
      rotary: { base, origin },
      expects: { hiddenSize, vocabularySize },
    },
  };
}

function mtpRecipes(scope: string, sizes: LayerSizes): WeightRecipe[] {
  const { hiddenSize } = sizes;
  return [
    ...['token_layernorm', 'hidden_layernorm', 'final_layernorm'].map((norm) =>
      vectorRecipe(`${scope}${norm}.weight`, `${module}.${norm}.weight`, hiddenSize),
    ),
    projectionRecipe(`${scope}input_proj.weight`, fusionName, 2 * hiddenSize, hiddenSize),
    ...layerRecipes(`${scope}layer`, module, sizes),
  ];
}

/** A module of the target's sizes, with biases of queries, keys and values. */
export function createMtp(target: NewTarget, seed: number | string): NewCheckpoint {
  const sizes = {
    ...target.configuration,
    ...{ queryKeyValueBias: true, outputBias: false, queryKeyNorm: false },
  };
  return {
    config: {
      ...headConfig(target, { ...sizes, layers: 1 }),
      ...{ architectures: ['MiMoMTPModel'], model_type: 'mimo_mtp', num_nextn_predict_layers: 1 },
      attention_bias: true,
    },
    file: 'model.safetensors',
    tensors: makeFresh(mtpRecipes('', sizes), { seed, deviation: target.deviation }),
  };
}
