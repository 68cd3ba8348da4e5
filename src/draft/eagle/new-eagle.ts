/** Heads of EAGLE and EAGLE-3: one Llama layer of the target's sizes. */
import { MistletoeError } from '../../core/errors.js';
import { countText } from '../../core/number-text.js';
import { integerSource } from '../../checkpoint/tensor-source.js';
import type { LayerSizes } from '../../model/decoder.js';
import { layerRecipes, matrixRecipe, projectionRecipe, vectorRecipe } from '../../model/weights.js';
import { maskRecipe } from './eagle-parts.js';
import { readTaps } from './taps.js';
import { makeFresh, type NewCheckpoint } from '../fresh/fresh-tensors.js';
import { headConfig, type NewTarget } from '../fresh/new-target.js';
import type { FreshDrafter } from '../draft-system.js';

const plain = { queryKeyValueBias: false, outputBias: false, queryKeyNorm: false };

function layerOf({ configuration }: NewTarget): LayerSizes {
  return { ...configuration, ...plain };
}

const file = 'model.safetensors';

export function createEagle(target: NewTarget, seed: number | string): NewCheckpoint {
  const sizes = layerOf(target);
  const { hiddenSize } = sizes;
  const recipes = [
    projectionRecipe('', 'fc.weight', 2 * hiddenSize, hiddenSize),
    vectorRecipe('', 'fc.bias', hiddenSize),
    ...layerRecipes('', 'layers.0', sizes, { inputNorm: false }),
  ];
  return {
    config: { ...headConfig(target, { ...sizes, layers: 1 }), bias: true },
    file,
    tensors: makeFresh(recipes, { seed, deviation: target.deviation }),
  };
}

/** A fresh head taps its target before layers 2, L/2 and L - 3. */
const minTargetLayers = 3;

export function refuseShallowTarget(folder: string, layerCount: number): void {
  if (layerCount >= minTargetLayers) return;
  throw new MistletoeError(
    'usage',
    `The target in ${folder} has ${countText(layerCount, 'layer')}; an EAGLE-3 head reads three of them, and at least ${minTargetLayers} were expected.`,
    {
      hint: 'Choose another --system: eagle, medusa, hydra, pard and speculative-sampling work with any target.',
    },
  );
}

/** `maskToken`: P-EAGLE drafts behind masks of this token. */
export function createEagle3(
  target: NewTarget,
  { draftTokens, layers = 1 }: FreshDrafter,
  maskToken: number | undefined,
  seed: number | string,
): NewCheckpoint {
  const sizes = layerOf(target);
  const { hiddenSize } = sizes;
  const { vocabularySize, layerCount } = target.configuration;
  const rows = draftTokens?.length === vocabularySize ? undefined : draftTokens;
  const draftSize = rows?.length ?? vocabularySize;
  const config = {
    ...headConfig(target, { ...sizes, layers: 1 }),
    architectures: ['LlamaForCausalLMEagle3'],
    draft_vocab_size: draftSize,
    target_hidden_size: hiddenSize,
    num_hidden_layers: layers,
    ...(maskToken === undefined ? {} : { mask_token_id: maskToken }),
  };
  const { taps } = readTaps({ config, folder: target.folder }, layerCount);
  const recipes = [
    projectionRecipe('', 'fc.weight', taps.length * hiddenSize, hiddenSize),
    vectorRecipe('', 'midlayer.hidden_norm.weight', hiddenSize),
    ...layerRecipes('', 'midlayer', sizes, { attentionInputSize: 2 * hiddenSize }),
    ...Array.from({ length: layers - 1 }, (_, index) =>
      layerRecipes('', `layers.${index + 1}`, sizes),
    ).flat(),
    ...(maskToken === undefined ? [] : [maskRecipe('', '', taps.length * hiddenSize)]),
    vectorRecipe('', 'norm.weight', hiddenSize),
    matrixRecipe('', 'lm_head.weight', [draftSize, hiddenSize]),
  ];
  const fresh = makeFresh(recipes, {
    seed,
    deviation: target.deviation,
    startOf: (name) => (name === 'lm_head.weight' ? { from: target.output, rows } : undefined),
  });
  return {
    config,
    file,
    tensors: rows === undefined ? fresh : [...fresh, ...mapSources(rows, vocabularySize)],
  };
}

function mapSources(rows: Int32Array, vocabularySize: number) {
  const known = new Int32Array(vocabularySize);
  for (const token of rows) known[token] = 1;
  return [
    integerSource(
      'd2t',
      'I64',
      rows.map((token, draft) => token - draft),
    ),
    integerSource('t2d', 'BOOL', known),
  ];
}
