/**
 * EAGLE (arXiv 2401.15077) and EAGLE-2: one Llama layer without input norm reads fc [e(x_t+1); f_t] and predicts the
 * target's next feature; the target's output projection turns it into tokens. HASS (arXiv 2408.15766) trains the same
 * head in another way.
 */
import {
  projectToVocabulary,
  project,
  runLayer,
  attend,
  feedForward,
  normalise,
} from '../../model/decoder.js';
import { anotherTarget, misfit, requireSizes, requireWidth } from '../reading/checks.js';
import { describeEagleFacts, describeEagle3Facts } from './eagle-facts.js';
import { describeEagle, describeEagle3, type Eagle3Parts } from './eagle-parts.js';
import { createEagle, createEagle3, refuseShallowTarget } from './new-eagle.js';
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { type Tensor, weight } from '../../graph/tensor.js';
import { add } from '../../graph/operations/elementwise.js';
import { concatenate, slice } from '../../graph/operations/shaping.js';
import { readVocabularyMap } from '../reading/head-configuration.js';
import { prepareDrafterWeights, type DrafterOptions, type WeightedSystem } from '../draft-system.js';
import type { Drafter } from '../drafter.js';
import { createEagleDrafter, ofLayer, type EagleHead } from './eagle-drafter.js';
import type { NewTarget } from '../fresh/new-target.js';
import type { TrainingRecipe } from '../draft-system.js';
import { readTaps } from './taps.js';

const eagleScope = 'eagle.';

export const eagle: WeightedSystem = {
  name: 'eagle',
  title: 'EAGLE-1/-2',
  recognise: (names) =>
    names.some(/^(model\.)?fc\.weight$/) && names.some(/^(model\.)?layers\.0\.self_attn\.q_proj\.weight$/)
      ? { layout: 'EAGLE-1/-2 or HASS head' }
      : undefined,
  describe(checkpoint, refuse) {
    const parts = describeEagle(checkpoint, '', { refuse });
    return { ...parts, facts: describeEagleFacts(checkpoint, parts) };
  },
  load: loadEagle,
  training: {
    sizes: [],
    settings: () => ({ featureWeight: 1, labelWeight: 0.1, noise: 0.2 }),
    create: (target, _, seed) => createEagle(target, seed),
  },
};

async function loadEagle(checkpoint: Checkpoint, options: DrafterOptions): Promise<Drafter> {
  const { target } = options;
  requireSizes(checkpoint, target);
  const parts = describeEagle(checkpoint, eagleScope, { target: target.configuration });
  const { configuration, hasFusionBias, draftVocabulary, hasOutputBias } = parts;
  const { hiddenSize } = configuration;
  const { vocabularySize } = target.configuration;
  requireWidth(checkpoint, `${parts.prefix}fc.weight`, 0, target.configuration.hiddenSize);
  requireWidth(checkpoint, `${parts.prefix}fc.weight`, 1, 2 * hiddenSize);
  if (draftVocabulary !== undefined && draftVocabulary !== vocabularySize) {
    throw misfit(
      checkpoint.folder,
      `has an lm_head of its own for ${draftVocabulary} tokens; the target has ${vocabularySize}`,
      anotherTarget,
    );
  }
  const weights = await prepareDrafterWeights(checkpoint, parts, options);
  const head: EagleHead = {
    parts,
    scope: eagleScope,
    described: { system: eagle.name, name: 'EAGLE', reads: 'features', taps: [] },
    vocabularies: { targetSize: vocabularySize, draftSize: vocabularySize },
    fuse: (states) => states,
    step(embeddings, features, context, memory) {
      const joined = concatenate([embeddings, features!], -1);
      const fused = project(joined, `${eagleScope}fc`, 2 * hiddenSize, hiddenSize, hasFusionBias);
      const layer = `${eagleScope}layer`;
      const { hidden, rows } = runLayer(fused, layer, configuration, context, ofLayer(memory), {
        inputNorm: false,
      });
      return { features: hidden, rows: [rows] };
    },
    score: (features) =>
      draftVocabulary === undefined
        ? projectToVocabulary(target.configuration, target.scope, features)
        : project(features, `${eagleScope}lm_head`, hiddenSize, draftVocabulary, hasOutputBias),
  };
  return createEagleDrafter(checkpoint, head, target, weights);
}

/**
 * EAGLE-3 (arXiv 2503.01840): fc fuses residual streams of the target; one layer reads [norm(e(x_t+1));
 * norm(feature)]; own norm and output projection over a draft vocabulary (target token = draft token + d2t). Later
 * heads ("EAGLE 3.1") add norms before the fusion, use the normed state for the residual, or feed the normed output
 * back (eagle-parts.ts), and have several layers: the first is the one above, the others are plain.
 *
 * P-EAGLE (arXiv 2602.01469) drafts all levels in one pass: behind the verified rows it reads masks, a token and a
 * learned state in the place of the target's, and feeds nothing back.
 */
const scope = 'eagle3.';

export const eagle3: WeightedSystem = {
  name: 'eagle3',
  title: 'EAGLE-3',
  recognise(names) {
    if (!names.some(/^(model\.)?fc\.weight$/)) return undefined;
    if (names.some(/^(model\.)?midlayer\./)) return { layout: 'EAGLE-3 head' };
    const isRenamed = names.some(/^(model\.)?layers\.0\.hidden_norm\.weight$/);
    return isRenamed ? { layout: 'EAGLE-3 head, layers.0 naming' } : undefined;
  },
  describe(checkpoint, refuse, options) {
    const parts = describeEagle3(checkpoint, '', { refuse });
    return { ...parts, facts: describeEagle3Facts(checkpoint, parts, refuse, options) };
  },
  load: loadEagle3,
  training: recipeOf(() => undefined),
};

export const pEagle: WeightedSystem = {
  ...eagle3,
  name: 'p-eagle',
  title: 'P-EAGLE',
  recognise: (names) =>
    names.some(/^(model\.)?mask_hidden$/) && eagle3.recognise(names) !== undefined
      ? { layout: 'P-EAGLE head' }
      : undefined,
  training: recipeOf(({ maskToken }) => maskToken),
};

function recipeOf(maskTokenOf: (target: NewTarget) => number | undefined): TrainingRecipe {
  return {
    sizes: ['draftVocabulary', 'layers'],
    settings: () => ({ depth: 4, decay: 0.8 }),
    checkTarget: ({ folder, configuration }) => {
      refuseShallowTarget(folder, configuration.layerCount);
    },
    create: (target, drafter, seed) => createEagle3(target, drafter, maskTokenOf(target), seed),
  };
}

async function loadEagle3(checkpoint: Checkpoint, options: DrafterOptions): Promise<Drafter> {
  const { target } = options;
  requireSizes(checkpoint, target);
  const parts = describeEagle3(checkpoint, scope, { target: target.configuration });
  const { configuration, stateWidth, normBeforeResidual, feedsNormed } = parts;
  const { hiddenSize } = configuration;
  const draftSize = parts.draftVocabulary!;
  const { vocabularySize, layerCount } = target.configuration;
  if (hiddenSize !== target.configuration.hiddenSize && parts.ownVocabulary === undefined) {
    throw misfit(
      checkpoint.folder,
      `is ${hiddenSize} wide, its target ${target.configuration.hiddenSize}, and it has no embed_tokens of its own`,
      'A head of another width cannot borrow the embeddings of its target: use an export that keeps its own.',
    );
  }
  const { taps, notice } = readTaps(checkpoint, layerCount, options.taps);
  if (notice !== undefined) options.onNotice?.(notice);
  requireWidth(checkpoint, `${parts.prefix}fc.weight`, 1, taps.length * target.configuration.hiddenSize);
  const targetTokens = await readVocabularyMap(checkpoint, draftSize, vocabularySize);
  const weights = await prepareDrafterWeights(checkpoint, parts, options);
  const finish = (hidden: Tensor): Tensor => normalise(hidden, `${scope}norm`, configuration);
  const fuse = (states: Tensor): Tensor =>
    project(
      normaliseTaps(states, parts, taps.length),
      `${scope}fc`,
      stateWidth,
      hiddenSize,
      parts.hasFusionBias,
    );
  const { maskToken } = parts;
  const head: EagleHead = {
    parts,
    scope,
    described:
      maskToken === undefined
        ? { system: eagle3.name, name: 'EAGLE-3', reads: 'taps', taps }
        : { system: pEagle.name, name: 'P-EAGLE', reads: 'taps', taps },
    mask:
      maskToken === undefined
        ? undefined
        : { token: maskToken, features: fuse(weight(`${scope}mask_hidden`, [1, 1, stateWidth])) },
    vocabularies: { targetSize: vocabularySize, draftSize, targetTokens },
    fuse,
    step(embeddings, given, context, memory) {
      const features = given!;
      const tokens = normalise(embeddings, `${scope}layer.input_layernorm`, configuration);
      const states = normalise(features, `${scope}layer.hidden_norm`, configuration);
      const joined = concatenate([tokens, states], -1);
      const attention = attend(joined, `${scope}layer.self_attn`, configuration, context, ofLayer(memory));
      const middle = add(normBeforeResidual ? states : features, attention.hidden);
      const normed = normalise(middle, `${scope}layer.post_attention_layernorm`, configuration);
      let hidden = add(middle, feedForward(normed, `${scope}layer.mlp`, configuration));
      const rows = [attention.rows];
      for (let layer = 1; layer < configuration.layerCount; layer++) {
        const name = `${scope}layers.${layer}`;
        const result = runLayer(hidden, name, configuration, context, ofLayer(memory, layer));
        hidden = result.hidden;
        rows.push(result.rows);
      }
      return { features: feedsNormed ? finish(hidden) : hidden, rows };
    },
    score(features) {
      const normed = feedsNormed ? features : finish(features);
      return project(normed, `${scope}lm_head`, hiddenSize, draftSize, parts.hasOutputBias);
    },
  };
  return createEagleDrafter(checkpoint, head, target, weights);
}

/** [batch, position, taps * width] */
function normaliseTaps(
  states: Tensor,
  { fusionNorm, stateWidth, configuration: { normEpsilon } }: Eagle3Parts,
  tapCount: number,
): Tensor {
  if (fusionNorm === 'none') return states;
  if (fusionNorm === 'joined')
    return normalise(states, `${scope}input_norm`, { hiddenSize: stateWidth, normEpsilon });
  const width = stateWidth / tapCount;
  const each = Array.from({ length: tapCount }, (_, tap) =>
    normalise(slice(states, -1, tap * width, (tap + 1) * width), `${scope}fc_norm.${tap}`, {
      hiddenSize: width,
      normEpsilon,
    }),
  );
  return concatenate(each, -1);
}
