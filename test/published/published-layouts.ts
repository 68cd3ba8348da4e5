/**
 * What a row about a published checkpoint consists of, and the tiny random weights that stand in for its own. A row
 * keeps the config.json as published but for its sizes, the tensors' names and the file's format; the facts that the
 * reference runs with are written beside it by hand, so that whoever reads config.json wrongly disagrees with them.
 */
import type { WritableTensor, WritableTensors } from '../support/checkpoint/encode-values.js';
import type { Random } from '../../src/core/random.js';
import { noise, normWeight, writeCheckpoint } from '../support/tiny-checkpoints.js';

export type Config = Readonly<Record<string, unknown>>;

export interface PublishedFolder {
  readonly config: Config;
  readonly file: string;
  readonly tensors: WritableTensors;
}

export function writePublished(folder: string, { config, file, tensors }: PublishedFolder): string {
  return writeCheckpoint(folder, file, tensors, config);
}

export interface LayerSizes {
  readonly hidden: number;
  readonly intermediate: number;
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headSize: number;
}

export interface DecoderSizes extends LayerSizes {
  readonly layers: number;
  readonly vocabulary: number;
}

/** A matrix that keeps the size of what it reads, times `gain`. */
export function linear(random: Random, outputs: number, inputs: number, gain = 1): WritableTensor {
  return noise(random, [outputs, inputs], gain / Math.sqrt(inputs));
}

export function bias(random: Random, size: number): WritableTensor {
  return noise(random, [size], 0.5);
}

export interface LayerTraits {
  /** Absent in EAGLE's only layer. */
  readonly inputNorm?: boolean;
  /** EAGLE-3 reads embedding and feature side by side. */
  readonly attentionInput?: number;
  readonly queryKeyValueBias?: boolean;
  readonly outputBias?: boolean;
  readonly queryKeyNorm?: boolean;
  /** A router and MLPs of this width instead of one MLP. */
  readonly experts?: { readonly count: number; readonly intermediate: number };
}

export function layerWeights(
  name: string,
  { hidden, intermediate, heads, keyValueHeads, headSize }: LayerSizes,
  random: Random,
  traits: LayerTraits = {},
): WritableTensors {
  const { inputNorm = true, attentionInput = hidden } = traits;
  const attention = `${name}.self_attn`;
  const [wide, narrow] = [heads * headSize, keyValueHeads * headSize];
  const tensors: Record<string, WritableTensor> = {
    // Large queries and keys make attention uneven, so that an angle or a mask that is off shows in the tokens.
    [`${attention}.q_proj.weight`]: linear(random, wide, attentionInput, 2),
    [`${attention}.k_proj.weight`]: linear(random, narrow, attentionInput, 2),
    [`${attention}.v_proj.weight`]: linear(random, narrow, attentionInput),
    [`${attention}.o_proj.weight`]: linear(random, hidden, wide),
    ...(traits.experts === undefined ? mlpWeights(`${name}.mlp`, hidden, intermediate, random) : {}),
    [`${name}.post_attention_layernorm.weight`]: normWeight(random, hidden),
  };
  for (let expert = 0; expert < (traits.experts?.count ?? 0); expert++) {
    const width = traits.experts!.intermediate;
    Object.assign(tensors, mlpWeights(`${name}.mlp.experts.${expert}`, hidden, width, random));
  }
  // A gain of 2: experts differ in weight, and near ties are rare.
  if (traits.experts !== undefined)
    tensors[`${name}.mlp.gate.weight`] = linear(random, traits.experts.count, hidden, 2);
  if (inputNorm) tensors[`${name}.input_layernorm.weight`] = normWeight(random, hidden);
  if (traits.queryKeyValueBias === true) {
    tensors[`${attention}.q_proj.bias`] = bias(random, wide);
    tensors[`${attention}.k_proj.bias`] = bias(random, narrow);
    tensors[`${attention}.v_proj.bias`] = bias(random, narrow);
  }
  if (traits.outputBias === true) tensors[`${attention}.o_proj.bias`] = bias(random, hidden);
  if (traits.queryKeyNorm === true) {
    tensors[`${attention}.q_norm.weight`] = normWeight(random, headSize);
    tensors[`${attention}.k_norm.weight`] = normWeight(random, headSize);
  }
  return tensors;
}

function mlpWeights(name: string, hidden: number, intermediate: number, random: Random): WritableTensors {
  return {
    [`${name}.gate_proj.weight`]: linear(random, intermediate, hidden),
    [`${name}.up_proj.weight`]: linear(random, intermediate, hidden),
    [`${name}.down_proj.weight`]: linear(random, hidden, intermediate),
  };
}

export interface DecoderTraits extends LayerTraits {
  /** Layers with experts; all unless given. */
  readonly sparse?: readonly number[];
  readonly tied?: boolean;
  /** Older exports keep the rotary frequencies of every layer. */
  readonly frequencies?: boolean;
}

export function decoderWeights(
  sizes: DecoderSizes,
  random: Random,
  { tied = false, frequencies = false, sparse, experts, ...traits }: DecoderTraits = {},
): WritableTensors {
  const tensors: Record<string, WritableTensor> = {
    'model.embed_tokens.weight': noise(random, [sizes.vocabulary, sizes.hidden], 1),
    'model.norm.weight': normWeight(random, sizes.hidden),
  };
  for (let layer = 0; layer < sizes.layers; layer++) {
    const mixture = experts !== undefined && (sparse?.includes(layer) ?? true) ? { experts } : {};
    Object.assign(tensors, layerWeights(`model.layers.${layer}`, sizes, random, { ...traits, ...mixture }));
    if (frequencies)
      tensors[`model.layers.${layer}.self_attn.rotary_emb.inv_freq`] = noise(random, [sizes.headSize / 2], 1);
  }
  if (!tied) tensors['lm_head.weight'] = linear(random, sizes.vocabulary, sizes.hidden, 3);
  return tensors;
}

/** The values that a file of half precision holds, so that the reference reads what is stored. */
export function storeAs(dtype: 'F16' | 'BF16', tensors: WritableTensors): WritableTensors {
  const digits = dtype === 'F16' ? 10 : 7;
  const smallest = dtype === 'F16' ? -14 : -126;
  const round = (value: number): number => {
    if (value === 0) return 0;
    const step = 2 ** (Math.max(smallest, Math.floor(Math.log2(Math.abs(value)))) - digits);
    return Math.round(value / step) * step;
  };
  return Object.fromEntries(
    Object.entries(tensors).map(([name, tensor]) => [
      name,
      tensor.dtype === 'F32' ? { ...tensor, dtype, values: Array.from(tensor.values, round) } : tensor,
    ]),
  );
}
