/** Heads of DFlash in z-lab's layout: Qwen3 layers of the target's sizes. */
import type { LayerSizes } from '../../model/decoder.js';
import { layerRecipes, matrixRecipe, projectionRecipe, vectorRecipe } from '../../model/weights.js';
import { makeFresh } from '../fresh/fresh-tensors.js';
import type { NewCheckpoint } from '../fresh/new-checkpoint.js';
import { headConfig, type NewTarget } from '../fresh/new-target.js';
import type { FreshDrafter } from '../training-recipe.js';
import { spreadTaps } from './block-settings.js';

/** Drafted tokens of a block, and layers: about the weights of an EAGLE-3 head. */
const defaults = { heads: 7, layers: 2 };

/** Weight of a level relative to the previous one: exp(-1 / 4) in short blocks, exp(-1 / 7) in long ones. */
export const decayOf = (levels: number): number => (levels > 8 ? 0.867 : 0.779);

export function createDflash(
  target: NewTarget,
  { heads = defaults.heads, layers = defaults.layers }: FreshDrafter,
  seed: number | string,
): NewCheckpoint {
  const { hiddenSize, layerCount } = target.configuration;
  const sizes: LayerSizes = {
    ...target.configuration,
    ...{ queryKeyValueBias: false, outputBias: false, queryKeyNorm: true },
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
      ...{ architectures: ['DFlashDraftModel'], model_type: 'qwen3', num_target_layers: layerCount },
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
  { heads = defaults.heads, ...drafter }: FreshDrafter,
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
    ...{ seed, deviation: 1 / Math.sqrt(rank) },
    startOf: (name) => (name.includes('markov_w2') ? 'zeros' : 'normal'),
  });
  return {
    ...created,
    config: {
      ...{ ...others, ...(nested as object), architectures: ['Qwen3DSparkModel'], block_size: heads },
      ...{ markov_rank: rank, markov_head_type: 'vanilla', enable_confidence_head: false, num_anchors: 512 },
    },
    tensors: [...created.tensors, ...markov],
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
