/**
 * EAGLE (arXiv 2401.15077) and EAGLE-2: one Llama layer without input norm reads fc [e(x_t+1); f_t] and predicts the
 * target's next feature; the target's output projection turns it into tokens. HASS (arXiv 2408.15766) trains the same
 * head in another way.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { concatenate } from '../../graph/operations/shaping.js';
import { project, projectToVocabulary, runLayer } from '../../model/decoder.js';
import { layerRecipes, linearRecipes } from '../../model/weights.js';
import type { DescribingContext, DrafterOptions, DraftSystem } from '../draft-system.js';
import type { Drafter } from '../drafter.js';
import { makeFresh, type NewCheckpoint } from '../fresh/fresh-tensors.js';
import { headConfig, type NewTarget } from '../fresh/new-target.js';
import { createAttentionDrafter } from '../programs/attention-drafter.js';
import {
  anotherTarget,
  incomplete,
  listTraits,
  listUnread,
  misfit,
  prepareDrafterWeights,
  requireWidth,
  startReading,
} from '../reading/checks.js';
import { sizeIn } from '../reading/draft-configuration.js';
import type { EagleParts } from './eagle-parts.js';
import {
  describeParts,
  findPrefix,
  freshParts,
  ofLayer,
  openHead,
  tableRecipes,
  traitsOf,
} from './eagle-parts.js';

export const eagle: DraftSystem = {
  name: 'eagle',
  title: 'EAGLE-1/-2',
  recognise: (names) =>
    names.some(/^(model\.)?fc\.weight$/) && names.some(/^(model\.)?layers\.0\.self_attn\.q_proj\.weight$/)
      ? { layout: 'EAGLE-1/-2 or HASS head' }
      : undefined,
  describe: describeEagle,
  load: loadEagle,
  training: {
    sizes: [],
    settings: () => ({ featureWeight: 1, labelWeight: 0.1, noise: 0.2 }),
    create: createEagle,
  },
};

const scope = 'eagle.';

function describeEagle(checkpoint: Checkpoint, context: DescribingContext = {}) {
  const reading = startReading(checkpoint, context);
  const prefix = findPrefix(reading);
  const parts = describeParts(reading, prefix, `${prefix}layers.0`);
  const { configuration, ownVocabulary, draftVocabulary } = parts;
  const { hiddenSize, layerCount, rotaryBase: base, rotaryOrigin: origin } = configuration;
  if (layerCount !== 1)
    reading.reject(
      `has ${layerCount} layers`,
      'An EAGLE head of one layer is supported; EAGLE-3 heads may have several.',
    );
  if (checkpoint.config.bias === true && !parts.hasFusionBias)
    reading.reject('declares "bias": true and lacks fc.bias', incomplete);
  const recipes = eagleRecipes(parts);
  const vocabularySize = ownVocabulary ?? sizeIn(reading.settings, 'vocab_size');
  return {
    parts,
    recipes,
    unread: listUnread(checkpoint, recipes),
    facts: {
      hiddenSize,
      draftVocabularySize: vocabularySize,
      rotary: { base, origin },
      traits: listTraits(traitsOf(parts, draftVocabulary !== undefined)),
      expects: { hiddenSize, vocabularySize },
    },
  };
}

function eagleRecipes(parts: EagleParts) {
  const { prefix, layer, configuration, hasFusionBias } = parts;
  const { hiddenSize } = configuration;
  return [
    ...linearRecipes(`${scope}fc`, `${prefix}fc`, 2 * hiddenSize, hiddenSize, hasFusionBias),
    ...layerRecipes(`${scope}layer`, layer, configuration, { inputNorm: false }),
    ...tableRecipes(scope, parts),
  ];
}

async function loadEagle(checkpoint: Checkpoint, options: DrafterOptions): Promise<Drafter> {
  const { target } = options;
  const { folder } = checkpoint;
  const description = describeEagle(checkpoint, { target: target.configuration });
  const { parts } = description;
  const { configuration, hasFusionBias, draftVocabulary, hasOutputBias } = parts;
  const { hiddenSize } = configuration;
  const { vocabularySize } = target.configuration;
  requireWidth(checkpoint, `${parts.prefix}fc.weight`, 0, target.configuration.hiddenSize);
  requireWidth(checkpoint, `${parts.prefix}fc.weight`, 1, 2 * hiddenSize);
  if (draftVocabulary !== undefined && draftVocabulary !== vocabularySize) {
    throw misfit(
      folder,
      `has an lm_head of its own for ${draftVocabulary} tokens; the target has ${vocabularySize}`,
      anotherTarget,
    );
  }
  const weights = await prepareDrafterWeights(checkpoint, description, options);
  return createAttentionDrafter({
    ...openHead({ folder, scope, target, weights }, parts),
    system: eagle.name,
    name: 'EAGLE',
    reads: 'features',
    taps: [],
    step(embeddings, features, context, memory) {
      const joined = concatenate([embeddings, features!], -1);
      const fused = project(joined, `${scope}fc`, 2 * hiddenSize, hiddenSize, hasFusionBias);
      const layer = `${scope}layer`;
      const { hidden, rows } = runLayer(fused, layer, configuration, context, ofLayer(memory), {
        inputNorm: false,
      });
      return { features: hidden, rows: [rows] };
    },
    score: (features) =>
      draftVocabulary === undefined
        ? projectToVocabulary(target.configuration, target.scope, features)
        : project(features, `${scope}lm_head`, hiddenSize, draftVocabulary, hasOutputBias),
  });
}

/** One Llama layer of the target's sizes. */
function createEagle(target: NewTarget): NewCheckpoint {
  const parts = { ...freshParts(target, 'layers.0', 1), hasFusionBias: true };
  return {
    config: { ...headConfig(target, { ...parts.configuration, layers: 1 }), bias: true },
    tensors: makeFresh(target, eagleRecipes(parts)),
  };
}
