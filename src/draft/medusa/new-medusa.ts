/** Medusa heads that start by drafting what the target's output says. */
import type { FreshTensor } from '../fresh/fresh-tensors.js';
import { indices, makeFresh, zeroLinear } from '../fresh/fresh-tensors.js';
import type { NewCheckpoint } from '../fresh/new-checkpoint.js';
import type { NewTarget } from '../fresh/new-target.js';

export interface MedusaChoice {
  readonly heads: number;
  readonly layers: number;
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
