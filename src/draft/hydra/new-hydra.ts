/** Hydra heads that start by drafting what the target's output says. */
import { storedSource } from '../../checkpoint/tensor-source.js';
import { layerRecipes, vectorRecipe } from '../../model/weights.js';
import type { FreshTensor } from '../fresh/fresh-tensors.js';
import { freshOf, indices, makeFresh, zeroLinear } from '../fresh/fresh-tensors.js';
import type { NewCheckpoint } from '../fresh/new-checkpoint.js';
import { hydraFile } from '../fresh/new-checkpoint.js';
import type { NewTarget } from '../fresh/new-target.js';

export interface HydraChoice {
  readonly heads: number;
  readonly layers: number;
  readonly hasPrefix: boolean;
}

const prefix = 'prefix_embeding_layer';

export function createHydra(
  target: NewTarget,
  { heads, layers, hasPrefix }: HydraChoice,
  seed: number | string,
): NewCheckpoint {
  const { configuration, deviation } = target;
  const { hiddenSize, vocabularySize } = configuration;
  const block = (head: number, at: number): string => `hydra_mlp.${head}.${hasPrefix ? 2 * at + 1 : at}`;
  const output = (head: number): string => `hydra_lm_head.${head}${hasPrefix ? '.1' : ''}`;
  const tensors = indices(heads).flatMap((head): FreshTensor[] => {
    const width = (head + 2) * hiddenSize;
    const passed = `${block(head, 0)}.res_connection`;
    return [
      ...zeroLinear(`${block(head, 0)}.linear`, hiddenSize, width),
      { name: `${passed}.weight`, shape: [hiddenSize, width], start: 'normal' },
      { name: `${passed}.bias`, shape: [hiddenSize], start: 'zeros' },
      ...indices(layers - 1).flatMap((extra) =>
        zeroLinear(`${block(head, extra + 1)}.linear`, hiddenSize, hiddenSize),
      ),
      {
        name: `${output(head)}.weight`,
        shape: [vocabularySize, hiddenSize],
        start: { from: target.output },
      },
      { name: `${output(head)}.bias`, shape: [vocabularySize], start: 'zeros' },
    ];
  });
  const layer = [
    ...layerRecipes('', `${prefix}.layers.0`, configuration),
    vectorRecipe('', `${prefix}.norm.weight`, hiddenSize),
  ];
  return {
    config: {
      hydra_num_heads: heads,
      hydra_num_layers: layers,
      hydra_head_arch: hasPrefix ? 'prefix-mlp' : 'mlp',
      grounded_heads: true,
      hidden_state_offset: 0,
      base_model_name_or_path: target.name,
      hidden_size: hiddenSize,
      vocab_size: vocabularySize,
      torch_dtype: 'float32',
    },
    file: hydraFile,
    tensors: [
      ...makeFresh([...tensors, ...(hasPrefix ? freshOf(layer) : [])], { seed, deviation }),
      // Unused, but the authors' module has it and their loader expects it.
      ...(hasPrefix ? [{ ...storedSource(target.embedding), name: `${prefix}.embed_tokens.weight` }] : []),
    ],
  };
}
