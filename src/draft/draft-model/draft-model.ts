/**
 * Plain speculative sampling (arXiv 2211.17192, 2302.01318): any language model can draft. If only the sizes of the
 * vocabularies differ, the common ids are the draft vocabulary; if the tokenizers differ, see other-vocabulary.ts.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { slice } from '../../graph/operations/shaping.js';
import { createModel } from '../../model/causal-model.js';
import { embeddingTable, projectToVocabulary, runDecoder } from '../../model/decoder.js';
import { contextError } from '../../model/forward.js';
import {
  decoderRecipes,
  findUnreadTensors,
  requireLayers,
  embeddingName,
  outputName,
} from '../../model/weights.js';
import type { DrafterDescription, DrafterOptions, DrafterShape, DraftSystem } from '../draft-system.js';
import { holdsDecoder } from '../draft-system.js';
import { createAttentionDrafter } from '../programs/attention-drafter.js';
import type { AttentionHead } from '../programs/attention-head.js';
import { countParameters } from '../reading/checks.js';
import { findStart } from './draft-text.js';
import { translateDrafter } from './other-vocabulary.js';
import {
  describeSharing,
  findOtherVocabulary,
  readTokenizers,
  requireSameVocabulary,
  type TokenizerPair,
} from './vocabulary-match.js';
import { readFloat32 } from '../../checkpoint/read-tensor.js';
import { floatSource } from '../../checkpoint/tensor-source.js';
import { MistletoeError } from '../../core/errors.js';
import { parseConfiguration } from '../../model/configuration.js';
import { makeFresh, type Start, type NewCheckpoint } from '../fresh/fresh-tensors.js';
import { llamaConfig, type LayerChoice, type NewTarget } from '../fresh/new-target.js';

export const draftModel: DraftSystem = {
  name: 'speculative-sampling',
  title: 'a draft model',
  recognise: (names) => (holdsDecoder(names) ? { layout: 'language model', isTarget: true } : undefined),
  describe: describeDraftModel,
  async load(checkpoint, options) {
    const pair = await readTokenizers(checkpoint, options);
    const other = findOtherVocabulary(checkpoint.folder, pair);
    if (other === undefined) return createAttentionDrafter(await openDraftModel(checkpoint, options, pair));
    options.onNotice?.(
      `The draft model ${checkpoint.folder} has another vocabulary. ${describeSharing(other)}.`,
    );
    const inner = createAttentionDrafter(await openModel(checkpoint, options));
    return translateDrafter(inner, { ...other, start: await findStart(other.draft) });
  },
  training: {
    sizes: ['layers', 'hiddenSize', 'targetLayers'],
    // It learns the language itself, so prompts help too.
    settings: () => ({ learn: 'all' }),
    checkShape: refuseTwoSizes,
    checkTarget: ({ configuration }, { targetLayers = 0 }) => {
      refuseWholeTarget(targetLayers, configuration.layerCount);
    },
    create: createDraftModel,
  },
};

const draftScope = 'draft.';

/** Throws if config.json cannot be read. */
export function describeDraftModel(checkpoint: Checkpoint): DrafterDescription {
  const { config, folder, tensors } = checkpoint;
  const configuration = parseConfiguration(config, `config.json of ${folder}`);
  requireLayers(checkpoint, configuration);
  const recipes = decoderRecipes(configuration, draftScope);
  const { hiddenSize, vocabularySize } = configuration;
  return {
    recipes,
    unread: findUnreadTensors(tensors.keys(), recipes, configuration).unknown,
    facts: { hiddenSize, draftVocabularySize: vocabularySize, expects: { vocabularySize } },
  };
}

/** Refuses a model with another vocabulary than the target's. */
export async function openDraftModel(
  checkpoint: Checkpoint,
  options: DrafterOptions,
  pair?: TokenizerPair,
): Promise<AttentionHead> {
  requireSameVocabulary(checkpoint.folder, pair ?? (await readTokenizers(checkpoint, options)));
  return openModel(checkpoint, options, options.target.configuration.vocabularySize);
}

async function openModel(
  checkpoint: Checkpoint,
  { target, ...options }: DrafterOptions,
  size?: number,
): Promise<AttentionHead> {
  const { runtime } = target;
  const model = await createModel(checkpoint, { ...options, runtime, scope: draftScope });
  const { configuration, scope, weights } = model;
  const { contextLength, slidingWindow, vocabularySize } = configuration;
  const targetSize = size ?? vocabularySize;
  // Models of one tokenizer are padded to different sizes (Qwen2.5: 151,936 rows at 0.5B, 152,064 at 7B, for 151,665
  // tokens). The drafter proposes from the common ids, renormalized, which keeps verification lossless.
  const draftSize = Math.min(targetSize, vocabularySize);
  const targetTokens =
    draftSize === targetSize ? undefined : Int32Array.from({ length: draftSize }, (_, token) => token);
  return {
    system: draftModel.name,
    name: 'draft model',
    reads: 'tokens',
    taps: [],
    parameterCount: countParameters(weights),
    title: `the draft model ${model.name}`,
    runtime,
    weights: [weights],
    sizes: configuration,
    reach: contextLength,
    window: slidingWindow,
    stateWidth: 0,
    featureWidth: 0,
    vocabularies: { targetSize, draftSize, targetTokens },
    rotary: model.rotary,
    embedding: embeddingTable(configuration, scope),
    fuse: (states) => states,
    step: (embeddings, _, context, memory) =>
      runDecoder(configuration, scope, embeddings, { context, ...memory }),
    score(features) {
      const logits = projectToVocabulary(configuration, scope, features);
      return draftSize === vocabularySize ? logits : slice(logits, -1, 0, draftSize);
    },
    requireContext(positions) {
      if (positions > contextLength) throw contextError(positions, configuration);
    },
  };
}

/** A small language model with its target's vocabulary and folded embeddings. */

/** Two fifths of the heads and a quarter of the layers: a tenth of the weights of the target's layers. */
function chooseSizes({ configuration }: NewTarget, wanted: DrafterShape): LayerChoice {
  const { headSize, hiddenSize, intermediateSize, layerCount } = configuration;
  const groupSize = configuration.headCount / configuration.keyValueHeadCount;
  const headCount = Math.max(1, Math.round(0.4 * configuration.headCount));
  const width = wanted.hiddenSize ?? headCount * headSize;
  return {
    headCount,
    hiddenSize: width,
    keyValueHeadCount: headCount % groupSize === 0 ? headCount / groupSize : headCount,
    intermediateSize: Math.max(8, 8 * Math.floor((width * intermediateSize) / hiddenSize / 8)),
    layers: wanted.layers ?? Math.max(1, Math.round(layerCount / 4)),
  };
}

export function createDraftModel(target: NewTarget, shape: DrafterShape): NewCheckpoint {
  if (shape.targetLayers !== undefined) return createShortenedTarget(target, shape.targetLayers);
  const config = llamaConfig(target, chooseSizes(target, shape));
  const recipes = decoderRecipes(parseConfiguration(config, 'the configuration of the draft model'), '');
  const startOf = (name: string): Start | undefined => {
    if (name === embeddingName) return { folded: target.embedding };
    return name === outputName ? { folded: target.output } : undefined;
  };
  return {
    config,
    tensors: makeFresh(target, recipes, startOf),
    describedBy: target.folder,
  };
}

/**
 * A draft model of the target's own layers: same width, embeddings, final norm and output, and a few layers from the
 * first to the last. It learns to do without the layers between.
 */
function createShortenedTarget(target: NewTarget, layers: number): NewCheckpoint {
  const { config, configuration, tensors, folder } = target;
  if (configuration.experts !== undefined) {
    throw new MistletoeError(
      'usage',
      'A draft model of the layers of a target with experts was asked for; training experts is not supported.',
      { hint: 'Leave out --target-layers for a dense draft model.' },
    );
  }
  const kept = Array.from({ length: layers }, (_, place) =>
    layers === 1 ? 0 : Math.round((place * (configuration.layerCount - 1)) / (layers - 1)),
  );
  const nameInTarget = (name: string): string =>
    name.replace(/^model\.layers\.(\d+)\./, (_, place: string) => `model.layers.${kept[Number(place)]!}.`);
  const { layer_types: types } = config;
  return {
    config: {
      ...config,
      ...(Array.isArray(types) ? { layer_types: kept.map((layer) => types[layer] as unknown) } : {}),
      num_hidden_layers: layers,
      ...('dtype' in config ? { dtype: 'float32' } : { torch_dtype: 'float32' }),
    },
    tensors: decoderRecipes({ ...configuration, layerCount: layers }, '')
      .flatMap(({ parts }) => parts)
      .map(({ tensor: name, shape }) =>
        floatSource({ name, shape, dtype: 'F32' }, () => readFloat32(tensors.get(nameInTarget(name))!)),
      ),
    describedBy: folder,
  };
}

export function refuseTwoSizes({ targetLayers, layers, hiddenSize }: DrafterShape): void {
  if (targetLayers === undefined || (layers ?? hiddenSize) === undefined) return;
  throw new MistletoeError(
    'usage',
    `A draft model of ${targetLayers} of the target's layers has the target's sizes; ${layers === undefined ? `a width of ${hiddenSize}` : `${layers} layers`} cannot be had beside.`,
    { hint: 'Leave out --target-layers, or --layers and --hidden-size.' },
  );
}

export function refuseWholeTarget(layers: number, layerCount: number): void {
  if (layers < layerCount) return;
  throw new MistletoeError(
    'usage',
    `A draft model of ${layers} of the target's layers was asked for; the target has ${layerCount}, and fewer were expected.`,
    { hint: 'A quarter of them or less is usual.' },
  );
}
