/** How published Hydra heads lie in a checkpoint: `mlp`, and `prefix-mlp` (Hydra++) with a layer of its own. */
import { z } from 'zod';
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../checkpoint/weight-recipe.js';
import type { CausalModel } from '../model/causal-model.js';
import { layerRecipes, projectionRecipe, vectorRecipe } from '../model/weights.js';
import { misfit, requireSizes, requireWidth, shapeOf } from './checks.js';

/** The prefix of the names under which the weights are kept. */
export const hydraScope = 'hydra.';

export interface HydraSizes {
  readonly heads: number;
  /** Plain residual blocks behind the first one of each head. */
  readonly extraBlocks: number;
  readonly hasPrefix: boolean;
}

const configSchema = z.object({
  hydra_num_heads: z.number().int().positive().default(4),
  hydra_num_layers: z.number().int().positive().default(1),
  hydra_head_arch: z.string().default('mlp'),
  grounded_heads: z.boolean().default(true),
  hidden_state_offset: z.number().default(0),
});

export interface HydraLayout {
  readonly sizes: HydraSizes;
  readonly recipes: readonly WeightRecipe[];
}

export function readHydraLayout(checkpoint: Checkpoint, target: CausalModel): HydraLayout {
  requireSizes(checkpoint, target);
  const { folder } = checkpoint;
  const parsed = configSchema.safeParse(checkpoint.config);
  if (!parsed.success)
    throw misfit(
      folder,
      "has a config.json that cannot be read as Hydra's",
      'Expected hydra_num_heads and hydra_num_layers.',
    );
  const config = parsed.data;
  if (config.hydra_head_arch !== 'mlp' && config.hydra_head_arch !== 'prefix-mlp') {
    throw misfit(folder, `has heads of kind "${config.hydra_head_arch}"`, 'Supported: mlp and prefix-mlp.');
  }
  if (!config.grounded_heads || config.hidden_state_offset !== 0) {
    throw misfit(
      folder,
      'has ungrounded heads or a hidden state offset',
      'Supported: grounded_heads true, hidden_state_offset 0.',
    );
  }
  const hasPrefix = config.hydra_head_arch === 'prefix-mlp';
  const sizes = { heads: config.hydra_num_heads, extraBlocks: config.hydra_num_layers - 1, hasPrefix };
  requireWidth(
    checkpoint,
    `hydra_lm_head.0${hasPrefix ? '.1' : ''}.weight`,
    0,
    target.configuration.vocabularySize,
  );
  return { sizes, recipes: hydraRecipes(checkpoint, sizes, target) };
}

/** Dropout modules take the even places of prefix-mlp's lists; mlp has none. */
function hydraRecipes(checkpoint: Checkpoint, sizes: HydraSizes, target: CausalModel): WeightRecipe[] {
  const { hiddenSize, vocabularySize } = target.configuration;
  const place = (block: number): number => (sizes.hasPrefix ? 2 * block + 1 : block);
  const linear = (name: string, source: string, from: number, to: number): WeightRecipe[] => [
    projectionRecipe(`${name}.weight`, `${source}.weight`, from, to),
    vectorRecipe(`${name}.bias`, `${source}.bias`, to),
  ];
  // Counts are a stranger's: the last block that they name has to be there before any is listed.
  shapeOf(checkpoint, `hydra_mlp.0.${place(sizes.extraBlocks)}.linear.weight`);
  const heads = Array.from({ length: sizes.heads }, (_, head) => {
    const source = (block: number): string => `hydra_mlp.${head}.${place(block)}`;
    const name = `${hydraScope}${head}`;
    const width = (head + 2) * hiddenSize;
    const [, found] = shapeOf(checkpoint, `${source(0)}.linear.weight`);
    if (found !== width) {
      throw misfit(
        checkpoint.folder,
        `has head ${head} with ${found ?? 'no'} inputs; ${width} were expected`,
        'It was trained for another target, or its heads are not grounded.',
      );
    }
    return [
      ...linear(`${name}.first`, `${source(0)}.linear`, width, hiddenSize),
      ...linear(`${name}.residual`, `${source(0)}.res_connection`, width, hiddenSize),
      ...Array.from({ length: sizes.extraBlocks }, (_, block) =>
        linear(`${name}.block${block}`, `${source(block + 1)}.linear`, hiddenSize, hiddenSize),
      ).flat(),
      ...linear(
        `${name}.lm_head`,
        sizes.hasPrefix ? `hydra_lm_head.${head}.1` : `hydra_lm_head.${head}`,
        hiddenSize,
        vocabularySize,
      ),
    ];
  }).flat();
  if (!sizes.hasPrefix) return heads;
  return [
    ...heads,
    ...layerRecipes(`${hydraScope}prefix`, 'prefix_embeding_layer.layers.0', target.configuration),
    vectorRecipe(`${hydraScope}prefix.norm.weight`, 'prefix_embeding_layer.norm.weight', hiddenSize),
  ];
}
