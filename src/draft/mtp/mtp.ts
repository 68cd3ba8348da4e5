/**
 * Multi-token prediction as in MiMo-7B (arXiv 2505.07608): a module in the target's own checkpoint that predicts one more
 * token. It joins the norms of the target's final state at t and of token t + 1, runs one layer like the target's, and
 * ends with a norm; the target's output projection reads the result, and a longer draft feeds it back.
 */
import { multiplyDimensions } from '../../graph/dimension.js';
import { exponential, greater, select } from '../../graph/operations/elementwise.js';
import { sum } from '../../graph/operations/reductions.js';
import { concatenate, reshape, transpose } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import type { AttentionContext, LayerSizes } from '../../model/decoder.js';
import { normalise, project, projectToVocabulary, runLayer } from '../../model/decoder.js';
import {
  prepareDrafterWeights,
  type DrafterOptions,
  type WeightedSystem,
  holdsDecoder,
  namesOf,
  type DescribingContext,
  type RecognisedLayout,
  type TensorNames,
} from '../draft-system.js';
import type { Drafter } from '../drafter.js';
import { createEagleDrafter, ofLayer, type EagleHead } from '../eagle/eagle-drafter.js';
import type { HeadMemory } from '../programs/attention-head.js';
import { requireSizes, requireWidth, listUnread, misfit, refuseAtOnce, rejectBy } from '../reading/checks.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import type { MistletoeError } from '../../core/errors.js';
import { showValue } from '../../core/json-text.js';
import { layerRecipes, projectionRecipe, vectorRecipe } from '../../model/weights.js';
import { makeFresh, type NewCheckpoint } from '../fresh/fresh-tensors.js';
import { headConfig, type NewTarget } from '../fresh/new-target.js';
import { flattenConfig, type Config } from '../reading/draft-configuration.js';
import { sizeIn } from '../reading/drafter-reading.js';
import { describeLayers } from '../reading/head-configuration.js';

const scope = 'mtp.';

export const mtp: WeightedSystem = {
  name: 'mtp',
  title: 'MTP (MiMo)',
  recognise: recogniseMtp,
  describe(checkpoint, refuse) {
    const refusal = findOtherFamily(checkpoint);
    if (refusal === undefined) return describeMtp(checkpoint, '', { refuse });
    refuse(refusal);
    return { recipes: [], unread: [], facts: { expects: {} } };
  },
  load: loadMtp,
  training: {
    sizes: [],
    // One module unrolled, as FastMTP (arXiv 2509.18362) trains it.
    settings: () => ({ depth: 3, labels: 'tokens', decay: 0.6 }),
    create: (target, _, seed) => createMtp(target, seed),
  },
};

async function loadMtp(checkpoint: Checkpoint, options: DrafterOptions): Promise<Drafter> {
  const { target } = options;
  const refusal = findOtherFamily(checkpoint);
  if (refusal !== undefined) throw refusal;
  requireSizes(checkpoint, target);
  requireWidth(checkpoint, fusionName, 0, target.configuration.hiddenSize);
  const parts = describeMtp(checkpoint, scope, { target: target.configuration });
  const { configuration } = parts;
  const { hiddenSize } = configuration;
  const { vocabularySize } = target.configuration;
  const weights = await prepareDrafterWeights(checkpoint, parts, options);
  const head: EagleHead = {
    parts,
    scope,
    described: { system: mtp.name, name: 'MTP', reads: 'features', taps: [] },
    vocabularies: { targetSize: vocabularySize, draftSize: vocabularySize },
    fuse: (states) => states,
    step(embeddings, features, context, memory) {
      const read = hideFirstToken(embeddings, context, memory);
      const tokens = normalise(read, `${scope}token_layernorm`, configuration);
      const states = normalise(features!, `${scope}hidden_layernorm`, configuration);
      const joined = concatenate([states, tokens], -1);
      const fused = project(joined, `${scope}input_proj`, 2 * hiddenSize, hiddenSize);
      const { hidden, rows } = runLayer(fused, `${scope}layer`, configuration, context, ofLayer(memory));
      return { features: normalise(hidden, `${scope}final_layernorm`, configuration), rows: [rows] };
    },
    score: (features) => projectToVocabulary(target.configuration, target.scope, features),
  };
  return createEagleDrafter(checkpoint, head, target, weights);
}

/**
 * MiMo was trained with zeros in the place of the embedding in the first row of a text. That row, and no other, sees only
 * itself. Drafted rows that see others outside the mask are never first.
 */
function hideFirstToken(
  embeddings: Tensor, // [batch, position, hidden]
  { mask, lanes }: AttentionContext,
  { earlier, drafted }: HeadMemory,
): Tensor {
  if (earlier !== undefined || drafted !== undefined) return embeddings;
  const seen = sum(exponential(mask), [-1]);
  const rows = mask.shape.at(-2)!;
  const perRow =
    lanes === undefined
      ? seen
      : reshape(transpose(seen, [2, 0, 1, 3]), [1, multiplyDimensions(rows, lanes), 1]);
  return select(greater(perRow, 1.5), embeddings, 0);
}

/** The tensors of an MTP module: MiMo's layout, and those of other families, which are refused by name. */

const module = 'model.mtp_layers.0';
export const fusionName = `${module}.input_proj.weight`;

interface OtherFamily {
  readonly name: string;
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
