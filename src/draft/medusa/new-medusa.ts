/** Medusa heads that start by drafting what the target's output says. */
import { makeFresh } from '../fresh/fresh-tensors.js';
import type { NewCheckpoint } from '../fresh/new-checkpoint.js';
import type { NewTarget } from '../fresh/new-target.js';
import { authorsLayout, medusaRecipes } from './medusa-layout.js';

export function createMedusa(
  { name, configuration, deviation, output }: NewTarget,
  { heads, layers }: { readonly heads: number; readonly layers: number },
  seed: number | string,
): NewCheckpoint {
  const { hiddenSize, vocabularySize } = configuration;
  const sizes = { heads, layers, hasBias: true, hiddenSize, vocabularySize };
  return {
    config: {
      medusa_num_heads: heads,
      medusa_num_layers: layers,
      base_model_name_or_path: name,
      hidden_size: hiddenSize,
      vocab_size: vocabularySize,
      torch_dtype: 'float32',
    },
    file: 'medusa_lm_head.safetensors',
    tensors: makeFresh(medusaRecipes('', sizes, authorsLayout), {
      seed,
      deviation,
      // A block of zeros is the identity.
      startOf: (tensor) => (tensor.includes('.linear.') ? 'zeros' : { from: output }),
    }),
  };
}
