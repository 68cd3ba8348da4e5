/** Which tensors of a checkpoint a decoder reads, and how they lie in the weight cache: projections as [in, out]. */
import type { Checkpoint } from '../checkpoint/stored-tensor.js';
import { refuse } from '../checkpoint/stored-tensor.js';
import type { WeightRecipe } from '../checkpoint/weight-recipe.js';
import type { ModelConfiguration } from './configuration.js';
import type { LayerSizes } from './decoder-layer.js';
import { embeddingName, outputName } from './tied-output.js';

export function vectorRecipe(name: string, tensor: string, size: number): WeightRecipe {
  return { name, shape: [size], parts: [{ tensor, shape: [size] }] };
}

export function matrixRecipe(name: string, tensor: string, shape: readonly [number, number]): WeightRecipe {
  return { name, shape, parts: [{ tensor, shape }] };
}

/** A linear layer, stored [out, in] by torch, kept [in, out]. */
export function projectionRecipe(
  name: string,
  tensor: string,
  inputSize: number,
  outputSize: number,
): WeightRecipe {
  return {
    name,
    shape: [inputSize, outputSize],
    parts: [{ tensor, shape: [outputSize, inputSize], transpose: true }],
  };
}

export interface LayerRecipeOptions {
  readonly inputNorm?: boolean | undefined;
  /** Width of the attention's input; the hidden size unless a drafter says otherwise. */
  readonly attentionInputSize?: number | undefined;
}

/** Recipes of runLayer's weights: `name` in the program, `source` in the checkpoint. */
export function layerRecipes(
  name: string,
  source: string,
  sizes: LayerSizes,
  { inputNorm = true, attentionInputSize = sizes.hiddenSize }: LayerRecipeOptions = {},
): WeightRecipe[] {
  const { hiddenSize, intermediateSize, headSize } = sizes;
  const queryWidth = sizes.headCount * headSize;
  const keyValueWidth = sizes.keyValueHeadCount * headSize;
  const projection = (part: string, from: number, to: number): WeightRecipe =>
    projectionRecipe(`${name}.${part}.weight`, `${source}.${part}.weight`, from, to);
  const vector = (part: string, size: number): WeightRecipe =>
    vectorRecipe(`${name}.${part}`, `${source}.${part}`, size);
  const widths = { q_proj: queryWidth, k_proj: keyValueWidth, v_proj: keyValueWidth };
  return [
    ...(inputNorm ? [vector('input_layernorm.weight', hiddenSize)] : []),
    ...Object.entries(widths).flatMap(([part, width]) => [
      projection(`self_attn.${part}`, attentionInputSize, width),
      ...(sizes.queryKeyValueBias ? [vector(`self_attn.${part}.bias`, width)] : []),
    ]),
    ...(sizes.queryKeyNorm
      ? ['q_norm', 'k_norm'].map((norm) => vector(`self_attn.${norm}.weight`, headSize))
      : []),
    projection('self_attn.o_proj', queryWidth, hiddenSize),
    ...(sizes.outputBias ? [vector('self_attn.o_proj.bias', hiddenSize)] : []),
    vector('post_attention_layernorm.weight', hiddenSize),
    projection('mlp.gate_proj', hiddenSize, intermediateSize),
    projection('mlp.up_proj', hiddenSize, intermediateSize),
    projection('mlp.down_proj', intermediateSize, hiddenSize),
  ];
}

/** A count is believed only as far as there are tensors: everything is built by it. */
export function requireLayers({ tensors, folder }: Checkpoint, layerCount: number): void {
  const found = new Set<string>();
  for (const name of tensors.keys()) {
    const layer = /^model\.layers\.(\d+)\./.exec(name)?.[1];
    if (layer !== undefined) found.add(layer);
  }
  if (layerCount <= found.size) return;
  const seen = found.size === 0 ? 'no tensor model.layers.<n>.*' : `tensors of ${found.size}`;
  throw refuse(
    `${folder} has ${seen}; its config.json names ${layerCount} layers`,
    'Check that no shard is missing, and that config.json belongs to the weights.',
  );
}

export function decoderRecipes(configuration: ModelConfiguration, scope: string): readonly WeightRecipe[] {
  const { vocabularySize, hiddenSize, layerCount, tiedEmbeddings } = configuration;
  return [
    matrixRecipe(`${scope}embed_tokens.weight`, embeddingName, [vocabularySize, hiddenSize]),
    ...Array.from({ length: layerCount }, (_, layer) =>
      layerRecipes(`${scope}layers.${layer}`, `model.layers.${layer}`, configuration),
    ).flat(),
    vectorRecipe(`${scope}norm.weight`, 'model.norm.weight', hiddenSize),
    ...(tiedEmbeddings
      ? []
      : [projectionRecipe(`${scope}lm_head.weight`, outputName, hiddenSize, vocabularySize)]),
  ];
}
