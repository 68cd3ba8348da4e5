/** Hydra heads that start by drafting what the target's output says. */
import { storedSource } from '../../checkpoint/tensor-source.js';
import { makeFresh, type Start } from '../fresh/fresh-tensors.js';
import { hydraFile, type NewCheckpoint } from '../fresh/new-checkpoint.js';
import type { NewTarget } from '../fresh/new-target.js';
import { hydraRecipes } from './hydra-layout.js';

export interface HydraChoice {
  readonly heads: number;
  readonly layers: number;
  readonly hasPrefix: boolean;
}

export function createHydra(
  { name, configuration, deviation, output, embedding }: NewTarget,
  { heads, layers, hasPrefix }: HydraChoice,
  seed: number | string,
): NewCheckpoint {
  const { hiddenSize, vocabularySize } = configuration;
  const recipes = hydraRecipes('', { heads, extraBlocks: layers - 1, hasPrefix }, configuration, vocabularySize);
  const startOf = (tensor: string): Start | undefined => {
    if (/^hydra_mlp\..*\.linear\.weight$/.test(tensor)) return 'zeros'; // such a block is the identity
    return /^hydra_lm_head\..*\.weight$/.test(tensor) ? { from: output } : undefined;
  };
  // Unused, but the authors' module has it and their loader expects it.
  const unused = { ...storedSource(embedding), name: 'prefix_embeding_layer.embed_tokens.weight' };
  return {
    config: {
      hydra_num_heads: heads,
      hydra_num_layers: layers,
      hydra_head_arch: hasPrefix ? 'prefix-mlp' : 'mlp',
      grounded_heads: true,
      hidden_state_offset: 0,
      base_model_name_or_path: name,
      hidden_size: hiddenSize,
      vocab_size: vocabularySize,
      torch_dtype: 'float32',
    },
    file: hydraFile,
    tensors: [...makeFresh(recipes, { seed, deviation, startOf }), ...(hasPrefix ? [unused] : [])],
  };
}
