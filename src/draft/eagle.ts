/**
 * EAGLE (arXiv 2401.15077) and EAGLE-2, which drafts with the same weights: one Llama layer without input norm reads
 * fc [e(x_t+1); f_t] and predicts the target's next feature; the target's own output projection turns it into tokens.
 */
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { CacheOptions } from '../checkpoint/weight-cache.js';
import { prepareWeights } from '../checkpoint/weight-cache.js';
import { concatenate } from '../graph/operations/shaping.js';
import type { CausalModel } from '../model/causal-model.js';
import { projectToVocabulary } from '../model/decoder.js';
import { project, runLayer } from '../model/decoder-layer.js';
import { createRotary } from '../model/rotary.js';
import { layerRecipes, projectionRecipe, vectorRecipe } from '../model/weights.js';
import { countParameters, misfit, requireSizes, requireWidth } from './checks.js';
import { readDraftConfiguration } from './draft-configuration.js';
import type { Drafter } from './drafter.js';
import { createEagleDrafter } from './eagle-drafter.js';
import type { EagleHead } from './eagle-session.js';

const scope = 'eagle.';

export async function loadEagle(
  checkpoint: Checkpoint,
  target: CausalModel,
  options: CacheOptions,
): Promise<Drafter> {
  requireSizes(checkpoint, target);
  const prefix = checkpoint.tensors.has('fc.weight') ? '' : 'model.';
  const configuration = {
    ...readDraftConfiguration(checkpoint, target),
    queryKeyValueBias: checkpoint.tensors.has(`${prefix}layers.0.self_attn.q_proj.bias`),
  };
  const { hiddenSize } = configuration;
  requireWidth(checkpoint, `${prefix}fc.weight`, 1, 2 * hiddenSize);
  const hasBias = checkpoint.tensors.has(`${prefix}fc.bias`);
  if (checkpoint.config.bias === true && !hasBias) {
    throw misfit(
      checkpoint.folder,
      'declares "bias": true and lacks fc.bias',
      'The file is incomplete: download it again.',
    );
  }
  const options0 = { inputNorm: false };
  const recipes = [
    projectionRecipe(`${scope}fc.weight`, `${prefix}fc.weight`, 2 * hiddenSize, hiddenSize),
    ...(hasBias ? [vectorRecipe(`${scope}fc.bias`, `${prefix}fc.bias`, hiddenSize)] : []),
    ...layerRecipes(`${scope}layer`, `${prefix}layers.0`, configuration, options0),
  ];
  const weights = await prepareWeights(checkpoint, recipes, options);
  const { vocabularySize } = target.configuration;
  const head: EagleHead = {
    target,
    configuration,
    stateWidth: hiddenSize,
    vocabularies: { targetSize: vocabularySize, draftSize: vocabularySize },
    rotary: createRotary(configuration),
    fuse: (states) => states,
    step(features, embeddings, context, memory) {
      const joined = concatenate([embeddings, features], -1);
      const fused = project(joined, `${scope}fc`, 2 * hiddenSize, hiddenSize, hasBias);
      const { hidden, rows } = runLayer(fused, `${scope}layer`, configuration, context, memory, options0);
      return { features: hidden, rows };
    },
    score: (features) => projectToVocabulary(target.configuration, target.scope, features),
  };
  return createEagleDrafter({
    head,
    system: 'eagle',
    name: 'EAGLE',
    reads: 'features',
    taps: [],
    weights,
    parameterCount: countParameters(weights),
  });
}
