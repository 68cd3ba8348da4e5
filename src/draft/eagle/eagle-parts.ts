/**
 * The parts of an EAGLE or EAGLE-3 head, from its tensors and config.json, for loaders and `inspect`. Optional parts
 * of published heads that both have:
 * embed_tokens, lm_head (EAGLE): own tables, which replace the target's
 * biases of fc, q/k/v, o_proj, lm_head
 * q_norm, k_norm: norms of queries and keys (Qwen3)
 */
import type { WeightRecipe } from '../../checkpoint/weight-recipe.js';
import { showValue } from '../../core/json-text.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { AttentionMemory } from '../../model/decoder.js';
import { linearRecipes, matrixRecipe } from '../../model/weights.js';
import { createRotary } from '../../model/rotary/rotary.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { NewTarget } from '../fresh/new-target.js';
import type { AttentionHead, HeadMemory } from '../programs/attention-head.js';
import { countParameters, incomplete, type Reading, shapeOf } from '../reading/checks.js';
import type { HeadTables } from '../reading/head-configuration.js';
import {
  describeLayers,
  embeddingOf,
  isLayerCount,
  maxLayers,
  readLayerKinds,
  sameOrigin,
  slidingKind,
} from '../reading/head-configuration.js';

/** Positions that a row sees, including its own. */
interface HeadWindow {
  readonly length: number;
  /** Only in some layers: two masks would be needed beyond it, so drafts end there. */
  readonly isMixed: boolean;
}

export interface EagleParts extends HeadTables {
  /** Of tensors. */
  readonly prefix: string;
  /** The first layer. */
  readonly layer: string;
  readonly hasFusionBias: boolean;
  readonly output: string;
  readonly draftVocabulary: number | undefined;
  readonly hasOutputBias: boolean;
  readonly window: HeadWindow | undefined;
}

export const findPrefix = ({ tensors }: Reading): string => (tensors.has('fc.weight') ? '' : 'model.');

export function describeParts(reading: Reading, prefix: string, layer: string): EagleParts {
  const { tensors, config, settings, target, reject } = reading;
  const [hiddenSize = 1] = shapeOf(reading, `${prefix}fc.weight`);
  const ownVocabulary = tensors.get(`${prefix}embed_tokens.weight`)?.shape[0];
  // Experts instead of an MLP are reported by what is missing.
  if (target !== undefined) shapeOf(reading, `${layer}.mlp.gate_proj.weight`);
  const vocabularySize = target?.vocabularySize ?? ownVocabulary ?? 1;
  const configuration = describeLayers(reading, layer, { hiddenSize, vocabularySize });
  const { num_hidden_layers: layers = 1, logit_scale: scale = 1 } = settings;
  const layerCount = isLayerCount(layers) ? layers : 1;
  if (layerCount !== layers)
    reject(`has "num_hidden_layers": ${showValue(layers)}`, `1 to ${maxLayers} layers are supported.`);
  if (scale !== 1)
    reject(`scales its logits by ${showValue(scale)}`, 'A head without "logit_scale" is supported.');
  if (config.attention_bias === true && !configuration.queryKeyValueBias)
    reject('declares "attention_bias": true and lacks the biases', incomplete);
  const output = tensors.has('lm_head.weight') ? 'lm_head' : `${prefix}lm_head`;
  return {
    prefix,
    layer,
    configuration: { ...configuration, layerCount },
    hasFusionBias: tensors.has(`${prefix}fc.bias`),
    ownVocabulary,
    output,
    draftVocabulary: tensors.get(`${output}.weight`)?.shape[0],
    hasOutputBias: tensors.has(`${output}.bias`),
    window: readWindow(reading, layerCount),
  };
}

/** A head of the target's sizes, without optional parts. */
export function freshParts({ configuration }: NewTarget, layer: string, layerCount: number): EagleParts {
  const plain = { queryKeyValueBias: false, outputBias: false, queryKeyNorm: false };
  return {
    prefix: '',
    layer,
    configuration: { ...configuration, ...plain, layerCount },
    hasFusionBias: false,
    ownVocabulary: undefined,
    output: 'lm_head',
    draftVocabulary: undefined,
    hasOutputBias: false,
    window: undefined,
  };
}

/** The tables of its own. */
export function tableRecipes(
  scope: string,
  { prefix, configuration, output, draftVocabulary, hasOutputBias, ownVocabulary }: EagleParts,
): WeightRecipe[] {
  const { hiddenSize } = configuration;
  const embedding = `${prefix}embed_tokens.weight`;
  return [
    ...(draftVocabulary === undefined
      ? []
      : linearRecipes(`${scope}lm_head`, output, hiddenSize, draftVocabulary, hasOutputBias)),
    ...(ownVocabulary === undefined
      ? []
      : [matrixRecipe(`${scope}embed_tokens.weight`, embedding, [ownVocabulary, hiddenSize])]),
  ];
}

type Traits = readonly (readonly [boolean, string])[];

/** `hasOwnOutput`: where an output projection is optional. */
export function traitsOf(parts: EagleParts, hasOwnOutput = false): Traits {
  const { configuration, ownVocabulary, hasFusionBias, hasOutputBias, window } = parts;
  const windowText = `a sliding window of ${window?.length ?? 0} positions`;
  return [
    [configuration.layerCount > 1, `${configuration.layerCount} layers`],
    [window?.isMixed === false, windowText],
    [window?.isMixed === true, `${windowText} in some layers, where drafts end`],
    [ownVocabulary !== undefined, 'embeddings of its own'],
    [hasOwnOutput, 'an output projection of its own'],
    [hasFusionBias, 'fc bias'],
    [hasOutputBias, 'output bias'],
    [configuration.queryKeyValueBias, 'attention bias'],
    [configuration.queryKeyNorm, 'query and key norms'],
  ];
}

/**
 * `layer_types` names the layers that have a window, else `use_sliding_window` gives one to all. `sliding_window` alone
 * gives none, as in vLLM, SpecForge and transformers: configs carry it over from a target whose layers attend fully.
 */
function readWindow(reading: Reading, layerCount: number): HeadWindow | undefined {
  const { sliding_window: length, use_sliding_window: isUsed } = reading.settings;
  const kinds = readLayerKinds(reading, layerCount);
  if (kinds === undefined) {
    if (isUsed !== true || typeof length !== 'number') return undefined;
    return { length, isMixed: false };
  }
  const windowed = kinds.filter((kind) => kind === slidingKind).length;
  if (windowed === 0) return undefined;
  if (typeof length !== 'number' || isUsed === false) {
    const missing = isUsed === false ? 'switches it off by use_sliding_window' : 'has no sliding_window';
    reading.reject(`asks for sliding attention in layer_types and ${missing}`, sameOrigin);
    return undefined;
  }
  return { length, isMixed: windowed < layerCount };
}

export interface OpenedHead {
  readonly folder: string;
  readonly scope: string;
  readonly target: CausalModel;
  readonly weights: WeightStore;
}

/** What EAGLE, EAGLE-3 and MTP heads have in common. */
export function openHead(
  { folder, scope, target, weights }: OpenedHead,
  parts: HeadTables & Partial<Pick<EagleParts, 'window'>>,
  stateWidth = parts.configuration.hiddenSize,
) {
  const { configuration, window } = parts;
  const { contextLength, vocabularySize } = target.configuration;
  return {
    title: `the head in ${folder}`,
    parameterCount: countParameters(weights),
    runtime: target.runtime,
    weights: [weights, target.weights],
    sizes: configuration,
    // Angles continue past the length in config.json, as in the authors' code.
    reach: contextLength,
    ...(window?.isMixed === true ? { windowEnd: window.length } : { window: window?.length }),
    stateWidth,
    featureWidth: configuration.hiddenSize,
    vocabularies: { targetSize: vocabularySize, draftSize: vocabularySize },
    rotary: createRotary(configuration),
    embedding: embeddingOf(folder, scope, parts, target),
    fuse: (states) => states,
  } satisfies Partial<AttentionHead>;
}

export const ofLayer = ({ past, earlier, drafted }: HeadMemory, layer = 0): AttentionMemory => ({
  past: past?.[layer],
  earlier: earlier?.[layer],
  drafted: drafted?.[layer],
});
