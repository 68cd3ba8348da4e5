/**
 * EAGLE-3 (arXiv 2503.01840): three residual streams of the target, fused by fc, replace the feature; one layer whose
 * attention reads [norm(e(x_t+1)); norm(feature)]; its own norm and output projection over a draft vocabulary that
 * may be smaller than the target's (target token = draft token + d2t).
 */
import { z } from 'zod';
import { readIntegers } from '../checkpoint/read-tensor.js';
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { CacheOptions } from '../checkpoint/weight-cache.js';
import { prepareWeights } from '../checkpoint/weight-cache.js';
import { add } from '../graph/operations/elementwise.js';
import { concatenate } from '../graph/operations/shaping.js';
import type { CausalModel } from '../model/causal-model.js';
import { attend, feedForward, normalise, project } from '../model/decoder-layer.js';
import { createRotary } from '../model/rotary.js';
import { layerRecipes, projectionRecipe, vectorRecipe } from '../model/weights.js';
import { countParameters, misfit, requireSizes, requireWidth, shapeOf } from './checks.js';
import { readDraftConfiguration } from './draft-configuration.js';
import type { Drafter } from './drafter.js';
import { createEagleDrafter } from './eagle-drafter.js';
import type { EagleHead } from './eagle-session.js';

const scope = 'eagle3.';
const unsupported = ['norm_before_residual', 'norm_before_fc', 'fc_norm', 'norm_output'];

export async function loadEagle3(
  checkpoint: Checkpoint,
  target: CausalModel,
  options: CacheOptions,
): Promise<Drafter> {
  requireSizes(checkpoint, target);
  const { tensors, folder, config } = checkpoint;
  const variant = unsupported.find((key) => config[key] === true);
  if (variant !== undefined)
    throw misfit(folder, `asks for "${variant}"`, 'That variant of EAGLE-3 is not supported.');
  const prefix = tensors.has('fc.weight') ? '' : 'model.';
  const layer = tensors.has(`${prefix}midlayer.hidden_norm.weight`)
    ? `${prefix}midlayer`
    : `${prefix}layers.0`;
  const configuration = {
    ...readDraftConfiguration(checkpoint, target),
    queryKeyValueBias: tensors.has(`${layer}.self_attn.q_proj.bias`),
  };
  const { hiddenSize } = configuration;
  if (hiddenSize !== target.configuration.hiddenSize) {
    throw misfit(
      folder,
      `is ${hiddenSize} wide and its target ${target.configuration.hiddenSize}`,
      "An EAGLE-3 head of another width than its target's is not supported.",
    );
  }
  const taps = readTaps(checkpoint, target.configuration.layerCount);
  const stateWidth = taps.length * target.configuration.hiddenSize;
  requireWidth(checkpoint, `${prefix}fc.weight`, 1, stateWidth);
  const outputName = tensors.has('lm_head.weight') ? 'lm_head.weight' : `${prefix}lm_head.weight`;
  const [draftSize] = shapeOf(checkpoint, outputName);
  const targetTokens = await readVocabularyMap(checkpoint, draftSize!, target.configuration.vocabularySize);
  const recipes = [
    projectionRecipe(`${scope}fc.weight`, `${prefix}fc.weight`, stateWidth, hiddenSize),
    vectorRecipe(`${scope}layer.hidden_norm.weight`, `${layer}.hidden_norm.weight`, hiddenSize),
    ...layerRecipes(`${scope}layer`, layer, configuration, { attentionInputSize: 2 * hiddenSize }),
    vectorRecipe(`${scope}norm.weight`, `${prefix}norm.weight`, hiddenSize),
    projectionRecipe(`${scope}lm_head.weight`, outputName, hiddenSize, draftSize!),
  ];
  const weights = await prepareWeights(checkpoint, recipes, options);
  const head: EagleHead = {
    target,
    configuration,
    stateWidth,
    vocabularies: { targetSize: target.configuration.vocabularySize, draftSize: draftSize!, targetTokens },
    rotary: createRotary(configuration),
    fuse: (states) => project(states, `${scope}fc`, stateWidth, hiddenSize),
    step(features, embeddings, context, memory) {
      const tokens = normalise(embeddings, `${scope}layer.input_layernorm`, configuration);
      const states = normalise(features, `${scope}layer.hidden_norm`, configuration);
      const joined = concatenate([tokens, states], -1);
      const attention = attend(joined, `${scope}layer.self_attn`, configuration, context, memory);
      const middle = add(features, attention.hidden);
      const normed = normalise(middle, `${scope}layer.post_attention_layernorm`, configuration);
      return {
        features: add(middle, feedForward(normed, `${scope}layer.mlp`, configuration)),
        rows: attention.rows,
      };
    },
    score: (features) =>
      project(normalise(features, `${scope}norm`, configuration), `${scope}lm_head`, hiddenSize, draftSize!),
  };
  return createEagleDrafter({
    head,
    system: 'eagle3',
    name: 'EAGLE-3',
    reads: 'taps',
    taps,
    weights,
    parameterCount: countParameters(weights),
  });
}

/** The layers before which the target is tapped: from the config where it says, else 2, L/2 and L - 3. */
export function readTaps(
  { config, folder }: Pick<Checkpoint, 'config' | 'folder'>,
  layerCount: number,
): readonly number[] {
  const nested = z.object({ eagle_aux_hidden_state_layer_ids: z.unknown() }).safeParse(config.eagle_config);
  const given =
    (nested.success ? nested.data.eagle_aux_hidden_state_layer_ids : undefined) ??
    config.eagle_aux_hidden_state_layer_ids;
  if (given === undefined || given === null) return [2, Math.floor(layerCount / 2), layerCount - 3];
  const taps = z.array(z.number().int().nonnegative().max(layerCount)).min(1).safeParse(given);
  if (!taps.success) {
    throw misfit(
      folder,
      `asks for the taps ${JSON.stringify(given)}; layers from 0 to ${layerCount} were expected`,
      'It was trained for a deeper target.',
    );
  }
  return taps.data;
}

/** d2t as target tokens; undefined where the draft vocabulary is the target's. */
async function readVocabularyMap(
  checkpoint: Checkpoint,
  draftSize: number,
  targetSize: number,
): Promise<Int32Array | undefined> {
  const { tensors, folder } = checkpoint;
  const offsets = tensors.get('d2t') ?? tensors.get('model.d2t');
  if (offsets === undefined) {
    if (draftSize === targetSize) return undefined;
    throw misfit(
      folder,
      `drafts over ${draftSize} of ${targetSize} tokens and lacks d2t`,
      'The file is incomplete: download it again.',
    );
  }
  const values = await readIntegers(offsets);
  const targetTokens = values.map((offset, token) => token + offset);
  const hint = `Expected ${draftSize} distinct tokens below ${targetSize}: the drafter belongs to another target or is damaged.`;
  const outside = targetTokens.findIndex((token) => token < 0 || token >= targetSize);
  if (outside >= 0) {
    const found = targetTokens[outside]!;
    throw misfit(
      folder,
      `has a d2t that maps draft token ${outside} to ${found}; the target has ${targetSize} tokens`,
      hint,
    );
  }
  const distinct = new Set(targetTokens).size;
  if (targetTokens.length !== draftSize || distinct !== draftSize) {
    throw misfit(
      folder,
      `has a d2t that maps ${targetTokens.length} draft tokens to ${distinct} target tokens; the drafter has ${draftSize}`,
      hint,
    );
  }
  const mask = tensors.get('t2d') ?? tensors.get('model.t2d');
  if (mask !== undefined) {
    const known = await readIntegers(mask);
    const wrong = targetTokens.find((token) => known[token] !== 1);
    if (wrong !== undefined)
      throw misfit(
        folder,
        `has d2t and t2d that disagree on target token ${wrong}`,
        'The file is damaged: download it again.',
      );
  }
  return targetTokens;
}
