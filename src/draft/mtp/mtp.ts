/**
 * Multi-token prediction as in MiMo-7B (arXiv 2505.07608): a module in the target's own checkpoint that predicts one more
 * token. It joins the norms of the target's last state at t, before the target's final norm, and of token t + 1, runs one
 * layer like the target's, and ends with a norm; the target's output projection reads the result, and a longer draft
 * feeds it back.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import { showValue } from '../../core/json-text.js';
import { multiplyDimensions } from '../../graph/dimension.js';
import { exponential, greater, select } from '../../graph/operations/elementwise.js';
import { sum } from '../../graph/operations/reductions.js';
import { concatenate, reshape, transpose } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import type { AttentionContext, LayerSizes } from '../../model/decoder.js';
import { normalise, project, projectToVocabulary, runLayer } from '../../model/decoder.js';
import { layerRecipes, projectionRecipe, vectorRecipe } from '../../model/weights.js';
import type { DescribingContext, DrafterOptions, TensorNames, DraftSystem } from '../draft-system.js';
import { holdsDecoder, namesOf } from '../draft-system.js';
import type { Drafter } from '../drafter.js';
import { ofLayer, openHead } from '../eagle/eagle-parts.js';
import { makeFresh, type NewCheckpoint } from '../fresh/fresh-tensors.js';
import { headConfig, type NewTarget } from '../fresh/new-target.js';
import { createAttentionDrafter } from '../programs/attention-drafter.js';
import type { HeadMemory } from '../programs/attention-head.js';
import { listUnread, prepareDrafterWeights, requireWidth, startReading } from '../reading/checks.js';
import { sizeIn, type Config } from '../reading/draft-configuration.js';
import { describeLayers } from '../reading/head-configuration.js';

export const mtp: DraftSystem = {
  name: 'mtp',
  title: 'MTP (MiMo)',
  recognise(names, config = {}) {
    if (isMimo(names))
      return holdsDecoder(names)
        ? { layout: 'language model with an MTP module of MiMo', isTarget: true }
        : { layout: 'MTP module of MiMo' };
    const other = otherFamilies.find(({ isSeen }) => isSeen(names, config));
    const isTarget = names.some(/(^|\.)embed_tokens\.weight$/) && names.some(/(^|\.)layers\.0\./);
    return other && { layout: `MTP module of ${other.name}, which is not supported`, isTarget };
  },
  describe: describeMtp,
  load: loadMtp,
  training: {
    sizes: [],
    // One module unrolled, as FastMTP (arXiv 2509.18362) trains it.
    settings: () => ({ depth: 3, labels: 'tokens', decay: 0.6 }),
    create: createMtp,
  },
};

const scope = 'mtp.';
const module = 'model.mtp_layers.0';
const fusionName = `${module}.input_proj.weight`;

const isMimo = (names: TensorNames): boolean => names.some(/^model\.mtp_layers\.\d+\./);

interface OtherFamily {
  readonly name: string;
  readonly reason: string;
  readonly isSeen: (names: TensorNames, config: Config) => boolean;
}

/** Refused by name. */
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

function describeMtp(checkpoint: Checkpoint, context: DescribingContext = {}) {
  const names = namesOf(checkpoint);
  const other = otherFamilies.find(({ isSeen }) => isSeen(names, checkpoint.config));
  if (other !== undefined && !isMimo(names)) {
    // Without the target: a difference in size would be named first, and no target would help.
    startReading(checkpoint, { refuse: context.refuse }).reject(
      `has the MTP module of ${other.name}, which is not supported: ${other.reason}`,
      "MiMo's module (model.mtp_layers.0) is supported.",
    );
    return { recipes: [], unread: [], facts: { expects: {} } };
  }
  const reading = startReading(checkpoint, context);
  const { tensors, settings, target, reject } = reading;
  if (target !== undefined) requireWidth(checkpoint, fusionName, 0, target.hiddenSize);
  const { num_nextn_predict_layers: modules = 1, use_sliding_window: hasWindow } = settings;
  if (modules !== 1 || names.some(/^model\.mtp_layers\.[1-9]/))
    reject(
      modules === 1 ? 'has several MTP modules' : `has "num_nextn_predict_layers": ${showValue(modules)}`,
      'One MTP module, which drafts every level, is supported.',
    );
  if (hasWindow === true)
    reject('asks for "use_sliding_window": true', 'An MTP module without a sliding window is supported.');
  const hiddenSize = target?.hiddenSize ?? tensors.get(fusionName)?.shape[0] ?? 1;
  const vocabularySize = sizeIn(settings, 'vocab_size');
  const sizes = { hiddenSize, vocabularySize: target?.vocabularySize ?? vocabularySize ?? 1 };
  const configuration = describeLayers(reading, module, sizes);
  const recipes = mtpRecipes(configuration);
  const { rotaryBase: base, rotaryOrigin: origin } = configuration;
  return {
    configuration,
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

function mtpRecipes(sizes: LayerSizes): WeightRecipe[] {
  const { hiddenSize } = sizes;
  return [
    ...['token_layernorm', 'hidden_layernorm', 'final_layernorm'].map((norm) =>
      vectorRecipe(`${scope}${norm}.weight`, `${module}.${norm}.weight`, hiddenSize),
    ),
    projectionRecipe(`${scope}input_proj.weight`, fusionName, 2 * hiddenSize, hiddenSize),
    ...layerRecipes(`${scope}layer`, module, sizes),
  ];
}

async function loadMtp(checkpoint: Checkpoint, options: DrafterOptions): Promise<Drafter> {
  const { target } = options;
  const description = describeMtp(checkpoint, { target: target.configuration });
  const configuration = description.configuration!;
  const { hiddenSize } = configuration;
  const weights = await prepareDrafterWeights(checkpoint, description, options);
  const parts = { configuration, ownVocabulary: undefined };
  return createAttentionDrafter({
    ...openHead({ folder: checkpoint.folder, scope, target, weights }, parts),
    system: mtp.name,
    name: 'MTP',
    reads: 'taps',
    // The residual stream behind the last layer.
    taps: [target.configuration.layerCount],
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
  });
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

/** A module of the target's sizes, with biases of queries, keys and values. */
function createMtp(target: NewTarget): NewCheckpoint {
  const biases = { queryKeyValueBias: true, outputBias: false, queryKeyNorm: false };
  const sizes = { ...target.configuration, ...biases };
  return {
    config: {
      ...headConfig(target, { ...sizes, layers: 1 }),
      architectures: ['MiMoMTPModel'],
      model_type: 'mimo_mtp',
      num_nextn_predict_layers: 1,
      attention_bias: true,
    },
    tensors: makeFresh(target, mtpRecipes(sizes)),
  };
}
