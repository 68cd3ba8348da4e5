/** Which tensors of a checkpoint a decoder reads, and how they lie in the weight cache: projections as [in, out]. */
import { listFirst } from '../core/number-text.js';
import { isDeepStrictEqual } from 'node:util';
import { readFloat32, readRows } from '../checkpoint/read-tensor.js';
import type { Checkpoint, StoredTensor } from '../checkpoint/stored-tensor.js';
import { formatShape, quote, refuse } from '../checkpoint/stored-tensor.js';
import { listRead, type WeightRecipe } from '../checkpoint/weight-recipe.js';
import type { MistletoeError } from '../core/errors.js';
import type { ModelConfiguration } from './configuration.js';
import type { LayerSizes } from './decoder.js';
import { countSparseLayers, expertsOf, type Experts } from './experts.js';
import { families } from './families.js';

/**
 * Every tensor of a checkpoint is read, known to be unneeded, or the reason for a refusal: a decoder that is run
 * without a part of it writes fluent and wrong text, and nothing else would say so.
 */
interface UnneededTensor {
  readonly name: string;
  readonly reason: string;
}

export interface UnreadTensors {
  readonly unneeded: readonly UnneededTensor[];
  readonly unknown: readonly string[];
}

const unneededAlways: readonly { readonly pattern: RegExp; readonly reason: string }[] = [
  {
    pattern: /(^|\.)rotary_emb\.(inv_freq|cos_cached|sin_cached)$/,
    reason: 'computed from config.json',
  },
  { pattern: /\.self_attn\.(bias|masked_bias)$/, reason: 'the mask of older exports' },
  { pattern: /^medusa_head\./, reason: 'heads of Medusa-2, which a drafter reads' },
  { pattern: /^model\.mtp_layers\./, reason: 'an MTP module, which a drafter reads' },
];

export function findUnreadTensors(
  names: Iterable<string>,
  recipes: readonly WeightRecipe[],
  { tiedEmbeddings }: Pick<ModelConfiguration, 'tiedEmbeddings'>,
): UnreadTensors {
  const read = listRead(recipes);
  const unneeded: UnneededTensor[] = [];
  const unknown: string[] = [];
  for (const name of names) {
    if (read.has(name)) continue;
    const known =
      tiedEmbeddings && name === outputName
        ? { reason: 'tied to the embedding' }
        : unneededAlways.find(({ pattern }) => pattern.test(name));
    if (known === undefined) unknown.push(name);
    else unneeded.push({ name, reason: known.reason });
  }
  return { unneeded, unknown };
}

const shown = 3;

export function describeUnknownTensors(
  place: string,
  { unknown }: UnreadTensors,
  { family, layerCount, experts }: Pick<ModelConfiguration, 'family' | 'layerCount' | 'experts'>,
): MistletoeError | undefined {
  if (unknown.length === 0) return undefined;
  return refuse(
    `${place} holds ${listFirst(unknown, shown, quote)}, which a ${families[family].name} decoder of ${layerCount} layers does not read`,
    'Without them it would be another model: check architectures, num_hidden_layers, attention_bias' +
      `${experts === undefined ? '' : ', num_experts, decoder_sparse_step, mlp_only_layers'} and ` +
      'tie_word_embeddings in config.json, or take it and the weights from the same checkpoint.',
  );
}

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

export function linearRecipes(
  name: string,
  source: string,
  inputSize: number,
  outputSize: number,
  hasBias = true,
): WeightRecipe[] {
  return [
    projectionRecipe(`${name}.weight`, `${source}.weight`, inputSize, outputSize),
    ...(hasBias ? [vectorRecipe(`${name}.bias`, `${source}.bias`, outputSize)] : []),
  ];
}

export interface LayerRecipeOptions {
  readonly inputNorm?: boolean | undefined;
  /** Width of the attention's input; the hidden size unless a drafter says otherwise. */
  readonly attentionInputSize?: number | undefined;
  /** Instead of one MLP. */
  readonly experts?: Experts | undefined;
}

/** Recipes of runLayer's weights: `name` in the program, `source` in the checkpoint. */
export function layerRecipes(
  name: string,
  source: string,
  sizes: LayerSizes,
  { inputNorm = true, attentionInputSize = sizes.hiddenSize, experts }: LayerRecipeOptions = {},
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
    ...(experts === undefined
      ? [
          projection('mlp.gate_proj', hiddenSize, intermediateSize),
          projection('mlp.up_proj', hiddenSize, intermediateSize),
          projection('mlp.down_proj', intermediateSize, hiddenSize),
        ]
      : [
          projection('mlp.gate', hiddenSize, experts.count),
          ...expertRecipes(`${name}.mlp.experts`, `${source}.mlp.experts`, hiddenSize, experts),
        ]),
  ];
}

const tensorsPerExpert = 3;

/** The experts' matrices side by side: [hidden, expert, gate and up], and [inner, expert, hidden]. */
function expertRecipes(
  name: string,
  source: string,
  hiddenSize: number,
  { count, intermediateSize }: Experts,
): WeightRecipe[] {
  const table = (part: string, projections: readonly string[], from: number, to: number): WeightRecipe => ({
    name: `${name}.${part}.weight`,
    shape: [from, count * projections.length * to],
    parts: Array.from({ length: count }, (_, expert) =>
      projections.map((each) => ({
        tensor: `${source}.${expert}.${each}.weight`,
        shape: [to, from],
        transpose: true,
      })),
    ).flat(),
  });
  return [
    table('gate_up', ['gate_proj', 'up_proj'], hiddenSize, intermediateSize),
    table('down', ['down_proj'], intermediateSize, hiddenSize),
  ];
}

/** Counts are believed only as far as there are tensors: everything is built by them. */
export function requireLayers(
  { tensors, folder }: Checkpoint,
  configuration: Pick<ModelConfiguration, 'layerCount' | 'intermediateSize' | 'experts'>,
): void {
  const { layerCount, experts } = configuration;
  const found = new Set<string>();
  for (const name of tensors.keys()) {
    const layer = /^model\.layers\.(\d+)\./.exec(name)?.[1];
    if (layer !== undefined) found.add(layer);
  }
  if (layerCount > found.size) {
    const seen = found.size === 0 ? 'no tensor model.layers.<n>.*' : `tensors of ${found.size}`;
    throw refuse(
      `${folder} has ${seen}; its config.json names ${layerCount} layers`,
      'Check that no shard is missing, and that config.json belongs to the weights.',
    );
  }
  const sparse = countSparseLayers(configuration);
  // A few that are missing are named later, one by one.
  if (experts !== undefined && sparse * experts.count * tensorsPerExpert > 4 * tensors.size) {
    throw refuse(
      `${folder} has ${tensors.size} tensors; its config.json names ${experts.count} experts in ${sparse} layers`,
      'Check that no shard is missing, and that num_experts in config.json belongs to the weights.',
    );
  }
}

export function decoderRecipes(configuration: ModelConfiguration, scope: string): readonly WeightRecipe[] {
  const { vocabularySize, hiddenSize, layerCount, tiedEmbeddings } = configuration;
  return [
    matrixRecipe(`${scope}embed_tokens.weight`, embeddingName, [vocabularySize, hiddenSize]),
    ...Array.from({ length: layerCount }, (_, layer) =>
      layerRecipes(`${scope}layers.${layer}`, `model.layers.${layer}`, configuration, {
        experts: expertsOf(configuration, layer),
      }),
    ).flat(),
    vectorRecipe(`${scope}norm.weight`, 'model.norm.weight', hiddenSize),
    ...(tiedEmbeddings
      ? []
      : [projectionRecipe(`${scope}lm_head.weight`, outputName, hiddenSize, vocabularySize)]),
  ];
}

export const embeddingName = 'model.embed_tokens.weight';
export const outputName = 'lm_head.weight';

/**
 * A checkpoint that ties its output to the embedding and stores an `lm_head.weight` all the same. If the two are
 * equal, as in older torch files, nothing is lost. If they differ, transformers 4 drops the stored one and version 5
 * uses it, so the file means two models and neither is chosen here. Both are read to tell, at every load: such files
 * are rare, and small models are the ones that tie. Names of one stored tensor need no reading.
 */
export async function requireTiedOutput(
  { folder, tensors }: Checkpoint,
  { tiedEmbeddings }: Pick<ModelConfiguration, 'tiedEmbeddings'>,
): Promise<void> {
  const output = tensors.get(outputName);
  const embedding = tensors.get(embeddingName);
  // An absent embedding is refused with the other weights.
  if (!tiedEmbeddings || output === undefined || embedding === undefined) return;
  const difference = await findDifference(embedding, output);
  if (difference === undefined) return;
  throw refuse(
    `${folder} ties its output to the embedding (tie_word_embeddings), but holds an ${outputName} of its own that ${difference}`,
    `Set tie_word_embeddings to false in config.json to use ${outputName}, or take the tensor out of the file to tie them.`,
  );
}

async function findDifference(embedding: StoredTensor, output: StoredTensor): Promise<string | undefined> {
  if (formatShape(embedding.shape) !== formatShape(output.shape)) {
    return `has shape ${formatShape(output.shape)}, the embedding's is ${formatShape(embedding.shape)}`;
  }
  // Names of one stored tensor.
  if (isDeepStrictEqual({ ...output, name: '' }, { ...embedding, name: '' })) return undefined;
  const columns = embedding.shape.at(-1) ?? 1;
  const expected = await readFloat32(embedding);
  for await (const { values, firstRow } of readRows(output)) {
    const at = values.findIndex((value, index) => value !== expected[firstRow * columns + index]);
    if (at >= 0) return `differs from it, first in row ${firstRow + Math.floor(at / columns)}`;
  }
  return undefined;
}
