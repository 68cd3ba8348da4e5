/** Heads of Medusa and Hydra that start by drafting what the target's output says. */
import { storedSource } from '../../checkpoint/tensor-source.js';
import { layerRecipes, vectorRecipe } from '../../model/weights.js';
import { freshOf, makeFresh } from '../fresh/fresh-tensors.js';
import type { FreshTensor } from '../fresh/fresh-tensors.js';
import type { NewCheckpoint } from '../fresh/new-checkpoint.js';
import { hydraFile } from '../fresh/new-checkpoint.js';
import type { NewTarget } from '../fresh/new-target.js';

export interface MedusaChoice {
  readonly heads: number;
  readonly layers: number;
}

const indices = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

/** A residual block that starts as the identity. */
function zeroLinear(name: string, outputs: number, inputs: number): FreshTensor[] {
  return [
    { name: `${name}.weight`, shape: [outputs, inputs], start: 'zeros' },
    { name: `${name}.bias`, shape: [outputs], start: 'zeros' },
  ];
}

export function createMedusa(
  target: NewTarget,
  { heads, layers }: MedusaChoice,
  seed: number | string,
): NewCheckpoint {
  const { hiddenSize, vocabularySize } = target.configuration;
  const tensors = indices(heads).flatMap((head): FreshTensor[] => [
    ...indices(layers).flatMap((layer) => zeroLinear(`${head}.${layer}.linear`, hiddenSize, hiddenSize)),
    {
      name: `${head}.${layers}.weight`,
      shape: [vocabularySize, hiddenSize],
      start: { from: target.output },
    },
  ]);
  return {
    config: {
      medusa_num_heads: heads,
      medusa_num_layers: layers,
      base_model_name_or_path: target.name,
      hidden_size: hiddenSize,
      vocab_size: vocabularySize,
      torch_dtype: 'float32',
    },
    file: 'medusa_lm_head.safetensors',
    tensors: makeFresh(tensors, { seed, deviation: target.deviation }),
  };
}

export interface HydraChoice extends MedusaChoice {
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
