/** Heads of DFlash in z-lab's layout: Qwen3 layers of the target's sizes. */
import type { LayerSizes } from '../../model/decoder.js';
import {
  layerRecipes,
  linearRecipes,
  matrixRecipe,
  projectionRecipe,
  vectorRecipe,
} from '../../model/weights.js';
import { makeFresh, type NewCheckpoint } from '../fresh/fresh-tensors.js';
import { headConfig, type NewTarget } from '../fresh/new-target.js';
import type { FreshDrafter } from '../draft-system.js';
import { spreadTaps } from './block-settings.js';

/** Drafted tokens of a block. */
export const defaultHeads = 7;
/** About the weights of an EAGLE-3 head. */
const defaultLayers = 2;

/** Weight of a level relative to the previous one: exp(-1 / 4) in short blocks, exp(-1 / 7) in long ones. */
export const decayOf = (levels: number): number => (levels > 8 ? 0.867 : 0.779);

export function createDflash(
  target: NewTarget,
  { heads = defaultHeads, layers = defaultLayers }: FreshDrafter,
  seed: number | string,
): NewCheckpoint {
  const { hiddenSize, layerCount } = target.configuration;
  const sizes: LayerSizes = {
    ...target.configuration,
    queryKeyValueBias: false,
    outputBias: false,
    queryKeyNorm: true,
  };
  const taps = chooseTaps(layerCount, layers);
  const recipes = [
    projectionRecipe('', 'fc.weight', taps.length * hiddenSize, hiddenSize),
    ...['hidden_norm', 'norm'].map((norm) => vectorRecipe('', `${norm}.weight`, hiddenSize)),
    ...Array.from({ length: layers }, (_, layer) => layerRecipes('', `layers.${layer}`, sizes)).flat(),
  ];
  return {
    config: {
      ...headConfig(target, { ...sizes, layers }),
      architectures: ['DFlashDraftModel'],
      model_type: 'qwen3',
      num_target_layers: layerCount,
      block_size: heads + 1,
      dflash_config: { mask_token_id: target.maskToken, target_layer_ids: taps },
    },
    file: 'model.safetensors',
    tensors: makeFresh(recipes, { seed, deviation: target.deviation }),
  };
}

/** Published heads have rank 256 at widths from 2560; without embeddings and output of its own, as engines allow. */
export function createDspark(
  target: NewTarget,
  { heads = defaultHeads, ...drafter }: FreshDrafter,
  seed: number | string,
): NewCheckpoint {
  const { config, ...created } = createDflash(target, { ...drafter, heads }, seed);
  const { dflash_config: nested, ...others } = config;
  const { hiddenSize, vocabularySize } = target.configuration;
  const rank = Math.min(256, Math.max(1, Math.floor(hiddenSize / 4)));
  const recipes = ['markov_w1', 'markov_w2'].map((part) =>
    matrixRecipe('', `markov_head.${part}.weight`, [vocabularySize, rank]),
  );
  const markov = makeFresh(recipes, {
    seed,
    deviation: 1 / Math.sqrt(rank),
    startOf: (name) => (name.includes('markov_w2') ? 'zeros' : 'normal'),
  });
  const confidence = makeFresh(linearRecipes('', 'confidence_head.proj', hiddenSize + rank, 1, true), {
    seed,
    deviation: target.deviation,
  });
  return {
    ...created,
    config: {
      ...others,
      ...(nested as object),
      architectures: ['Qwen3DSparkModel'],
      block_size: heads,
      num_anchors: 512,
      markov_rank: rank,
      markov_head_type: 'vanilla',
      enable_confidence_head: true,
      confidence_head_with_markov: true,
    },
    tensors: [...created.tensors, ...markov, ...confidence],
  };
}

const minTaps = 3;

/** Outputs of layers. Shallow targets have fewer to choose from. */
function chooseTaps(targetLayers: number, layers: number): readonly number[] {
  const spread = spreadTaps(targetLayers, Math.max(minTaps, layers));
  const last = targetLayers - 1;
  const within = spread.map((layer) => Math.min(last, Math.max(0, layer)));
  return [...new Set(within)].sort((one, other) => one - other);
}
