/**
 * EAGLE-3 (arXiv 2503.01840): fc fuses residual streams of the target; one layer reads [norm(e(x_t+1));
 * norm(feature)]; own norm and output projection over a draft vocabulary (target token = draft token + d2t). Later
 * heads ("EAGLE 3.1") have further norms and plain layers (eagle3-parts.ts).
 *
 * P-EAGLE (arXiv 2602.01469) drafts all levels in one pass: behind the verified rows it reads masks, a token and a
 * learned state in the place of the target's, and feeds nothing back.
 */
import type { Checkpoint } from '../../checkpoint/stored-tensor.js';
import { integerSource } from '../../checkpoint/tensor-source.js';
import { MistletoeError } from '../../core/errors.js';
import { countText } from '../../core/number-text.js';
import { add } from '../../graph/operations/elementwise.js';
import { concatenate, slice } from '../../graph/operations/shaping.js';
import { weight, type Tensor } from '../../graph/tensor.js';
import { attend, feedForward, normalise, project, runLayer } from '../../model/decoder.js';
import type { DrafterOptions, FreshDrafter, TrainingRecipe, DraftSystem } from '../draft-system.js';
import type { Drafter } from '../drafter.js';
import { makeFresh, type NewCheckpoint } from '../fresh/fresh-tensors.js';
import { headConfig, type NewTarget } from '../fresh/new-target.js';
import { createAttentionDrafter } from '../programs/attention-drafter.js';
import type { AttentionHead } from '../programs/attention-head.js';
import { misfit, prepareDrafterWeights, requireWidth } from '../reading/checks.js';
import { readVocabularyMap } from '../reading/head-configuration.js';
import { freshParts, ofLayer, openHead } from './eagle-parts.js';
import { describeEagle3, eagle3Recipes, scope, type Eagle3Parts } from './eagle3-parts.js';
import { readTaps } from './taps.js';

export const eagle3: DraftSystem = {
  name: 'eagle3',
  title: 'EAGLE-3',
  recognise(names) {
    if (!names.some(/^(model\.)?fc\.weight$/)) return undefined;
    if (names.some(/^(model\.)?midlayer\./)) return { layout: 'EAGLE-3 head' };
    const isRenamed = names.some(/^(model\.)?layers\.0\.hidden_norm\.weight$/);
    return isRenamed ? { layout: 'EAGLE-3 head, layers.0 naming' } : undefined;
  },
  describe: describeEagle3,
  load: loadEagle3,
  training: recipeOf(() => undefined),
};

export const pEagle: DraftSystem = {
  ...eagle3,
  name: 'p-eagle',
  title: 'P-EAGLE',
  recognise: (names) =>
    names.some(/^(model\.)?mask_hidden$/) && eagle3.recognise(names) !== undefined
      ? { layout: 'P-EAGLE head' }
      : undefined,
  training: recipeOf(({ maskToken }) => maskToken),
};

async function loadEagle3(checkpoint: Checkpoint, options: DrafterOptions): Promise<Drafter> {
  const { target } = options;
  const { folder } = checkpoint;
  const description = describeEagle3(checkpoint, { target: target.configuration, taps: options.taps });
  const { parts } = description;
  const { configuration, stateWidth, feedsNormed, maskToken } = parts;
  const { hiddenSize } = configuration;
  const draftSize = parts.draftVocabulary!;
  const { vocabularySize, layerCount } = target.configuration;
  if (hiddenSize !== target.configuration.hiddenSize && parts.ownVocabulary === undefined) {
    throw misfit(
      folder,
      `is ${hiddenSize} wide, its target ${target.configuration.hiddenSize}, and it has no embed_tokens of its own`,
      'A head of another width cannot borrow the embeddings of its target: use an export that keeps its own.',
    );
  }
  const { taps, notice } = readTaps(checkpoint, layerCount, options.taps);
  if (notice !== undefined) options.onNotice?.(notice);
  requireWidth(checkpoint, `${parts.prefix}fc.weight`, 1, taps.length * target.configuration.hiddenSize);
  const targetTokens = await readVocabularyMap(checkpoint, draftSize, vocabularySize);
  const weights = await prepareDrafterWeights(checkpoint, description, options);
  const finish = (hidden: Tensor): Tensor => normalise(hidden, `${scope}norm`, configuration);
  const fuse = (states: Tensor): Tensor => {
    const normed = normaliseTaps(states, parts, taps.length);
    return project(normed, `${scope}fc`, stateWidth, hiddenSize, parts.hasFusionBias);
  };
  const common = {
    ...openHead({ folder, scope, target, weights }, parts, stateWidth),
    system: eagle3.name,
    name: 'EAGLE-3',
    reads: 'taps' as const,
    taps,
    vocabularies: { targetSize: vocabularySize, draftSize, targetTokens },
    fuse,
    step: (...given: Parameters<AttentionHead['step']>) => runLayers(parts, finish, ...given),
    score(features: Tensor) {
      const normed = feedsNormed ? features : finish(features);
      return project(normed, `${scope}lm_head`, hiddenSize, draftSize, parts.hasOutputBias);
    },
  };
  if (maskToken === undefined) return createAttentionDrafter(common);
  return createAttentionDrafter({
    ...common,
    system: pEagle.name,
    name: 'P-EAGLE',
    featureWidth: 0,
    mask: { token: maskToken, features: fuse(weight(`${scope}mask_hidden`, [1, 1, stateWidth])) },
  });
}

function runLayers(
  { configuration, normBeforeResidual, feedsNormed }: Eagle3Parts,
  finish: (hidden: Tensor) => Tensor,
  ...[embeddings, features, context, memory]: Parameters<AttentionHead['step']>
): ReturnType<AttentionHead['step']> {
  const tokens = normalise(embeddings, `${scope}layer.input_layernorm`, configuration);
  const states = normalise(features!, `${scope}layer.hidden_norm`, configuration);
  const joined = concatenate([tokens, states], -1);
  const attention = attend(joined, `${scope}layer.self_attn`, configuration, context, ofLayer(memory));
  const middle = add(normBeforeResidual ? states : features!, attention.hidden);
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

/** A fresh head taps its target before layers 2, L/2 and L - 3. */
const minTargetLayers = 3;

function recipeOf(maskTokenOf: (target: NewTarget) => number | undefined): TrainingRecipe {
  return {
    sizes: ['draftVocabulary', 'layers'],
    settings: () => ({ depth: 4, decay: 0.8 }),
    checkTarget({ folder, configuration: { layerCount } }) {
      if (layerCount >= minTargetLayers) return;
      throw new MistletoeError(
        'usage',
        `The target in ${folder} has ${countText(layerCount, 'layer')}; an EAGLE-3 head reads three of them, and at least ${minTargetLayers} were expected.`,
        {
          hint: 'Choose another --system: eagle, medusa, hydra, pard and speculative-sampling work with any target.',
        },
      );
    },
    create: (target, drafter) => createEagle3(target, drafter, maskTokenOf(target)),
  };
}

/** `maskToken`: P-EAGLE drafts behind masks of this token. */
function createEagle3(
  target: NewTarget,
  { draftTokens, layers = 1 }: FreshDrafter,
  maskToken: number | undefined,
): NewCheckpoint {
  const { vocabularySize, layerCount, hiddenSize } = target.configuration;
  const rows = draftTokens?.length === vocabularySize ? undefined : draftTokens;
  const draftVocabulary = rows?.length ?? vocabularySize;
  const common = freshParts(target, 'midlayer', layers);
  const config = {
    ...headConfig(target, { ...common.configuration, layers }),
    architectures: ['LlamaForCausalLMEagle3'],
    draft_vocab_size: draftVocabulary,
    target_hidden_size: hiddenSize,
    ...(maskToken === undefined ? {} : { mask_token_id: maskToken }),
  };
  const { taps } = readTaps({ config, folder: target.folder }, layerCount);
  const recipes = eagle3Recipes({
    ...common,
    stateWidth: taps.length * hiddenSize,
    tapWidth: hiddenSize,
    draftVocabulary,
    fusionNorm: 'none',
    normBeforeResidual: false,
    feedsNormed: false,
    maskToken,
  });
  const startOf = (name: string) => (name === 'lm_head.weight' ? { from: target.output, rows } : undefined);
  const fresh = makeFresh(target, recipes, startOf);
  if (rows === undefined) return { config, tensors: fresh };
  const offsets = rows.map((token, draft) => token - draft);
  const known = new Int32Array(vocabularySize);
  for (const token of rows) known[token] = 1;
  const maps = [integerSource('d2t', 'I64', offsets), integerSource('t2d', 'BOOL', known)];
  return { config, tensors: [...fresh, ...maps] };
}
