/**
 * One transformer layer as graph-building functions: the piece that targets, draft models, EAGLE heads and Hydra's
 * prefix layer have in common. Attention reads the past (rows of a cache, one copy for the whole batch) and the new
 * rows separately and joins only their scores, so nothing of the length of the context is ever copied.
 */
import type { Tensor } from '../graph/tensor.js';
import { contract, matmul } from '../graph/operations/contraction.js';
import { add, multiply, silu } from '../graph/operations/elementwise.js';
import { weight } from '../graph/operations/leaves.js';
import { rmsNorm, softmax } from '../graph/operations/reductions.js';
import { rotate } from '../graph/operations/rotation.js';
import { concatenate, reshape, slice, transpose } from '../graph/operations/shaping.js';
import type { ModelConfiguration } from './configuration.js';

/** The sizes a layer is built from; a part of ModelConfiguration. */
export type LayerSizes = Pick<
  ModelConfiguration,
  | 'hiddenSize'
  | 'intermediateSize'
  | 'headCount'
  | 'keyValueHeadCount'
  | 'headSize'
  | 'normEpsilon'
  | 'queryKeyValueBias'
  | 'outputBias'
  | 'queryKeyNorm'
>;

export interface AttentionContext {
  readonly cosine: Tensor; // [position, headSize / 2]
  readonly sine: Tensor; // [position, headSize / 2]
  readonly mask: Tensor; // [position, past + position] or [position, position] without a past; added to the scores
}

export interface KeyValueRows {
  readonly keys: Tensor; // [past, keyValueHead, headSize], or [batch, position, keyValueHead, headSize] when new
  readonly values: Tensor;
}

export interface LayerResult {
  readonly hidden: Tensor; // [batch, position, hidden]
  readonly rows: KeyValueRows; // the new rows
}

export function project(
  x: Tensor,
  name: string,
  inputSize: number,
  outputSize: number,
  bias = false,
): Tensor {
  const product = matmul(x, weight(`${name}.weight`, [inputSize, outputSize]));
  return bias ? add(product, weight(`${name}.bias`, [outputSize])) : product;
}

export function normalise(
  x: Tensor,
  name: string,
  sizes: { hiddenSize: number; normEpsilon: number },
): Tensor {
  return rmsNorm(x, weight(`${name}.weight`, [sizes.hiddenSize]), sizes.normEpsilon);
}

/** Attention whose input may be wider than the hidden size (EAGLE-3 feeds embedding and feature side by side). */
export function attend(
  x: Tensor, // [batch, position, inputSize]
  name: string,
  sizes: LayerSizes,
  context: AttentionContext,
  past: KeyValueRows | undefined,
): LayerResult {
  const { headCount, keyValueHeadCount, headSize, hiddenSize } = sizes;
  const [batch, position, inputSize] = x.shape;
  const heads = (part: string, count: number): Tensor => {
    const flat = project(
      x,
      `${name}.${part}`,
      inputSize as number,
      count * headSize,
      sizes.queryKeyValueBias,
    );
    return reshape(flat, [batch!, position!, count, headSize]);
  };
  const turned = (part: string, count: number, norm: string): Tensor => {
    const raw = heads(part, count);
    const scale = weight(`${name}.${norm}.weight`, [headSize]);
    const normed = sizes.queryKeyNorm ? rmsNorm(raw, scale, sizes.normEpsilon) : raw;
    return rotate(normed, context.cosine, context.sine);
  };
  const group = headCount / keyValueHeadCount;
  const queries = reshape(turned('q_proj', headCount, 'q_norm'), [
    batch!,
    position!,
    keyValueHeadCount,
    group,
    headSize,
  ]);
  const keys = turned('k_proj', keyValueHeadCount, 'k_norm');
  const values = heads('v_proj', keyValueHeadCount);

  const scale = 1 / Math.sqrt(headSize);
  const newScores = contract(queries, keys, 'b t k g d, b u k d -> b k g t u', scale);
  let mixed: Tensor;
  if (past === undefined) {
    const law = softmax(add(newScores, context.mask));
    mixed = contract(law, values, 'b k g t u, b u k d -> b k g t d');
  } else {
    const pastScores = contract(queries, past.keys, 'b t k g d, p k d -> b k g t p', scale);
    const law = softmax(add(concatenate([pastScores, newScores], -1), context.mask));
    const pastLength = past.keys.shape[0]!;
    mixed = add(
      contract(slice(law, -1, 0, pastLength), past.values, 'b k g t p, p k d -> b k g t d'),
      contract(slice(law, -1, pastLength), values, 'b k g t u, b u k d -> b k g t d'),
    );
  }
  const joined = reshape(transpose(mixed, [0, 3, 1, 2, 4]), [batch!, position!, headCount * headSize]);
  const hidden = project(joined, `${name}.o_proj`, headCount * headSize, hiddenSize, sizes.outputBias);
  return { hidden, rows: { keys, values } };
}

export function feedForward(x: Tensor, name: string, { hiddenSize, intermediateSize }: LayerSizes): Tensor {
  const gate = silu(project(x, `${name}.gate_proj`, hiddenSize, intermediateSize));
  const up = project(x, `${name}.up_proj`, hiddenSize, intermediateSize);
  return project(multiply(gate, up), `${name}.down_proj`, intermediateSize, hiddenSize);
}

export interface LayerOptions {
  /** EAGLE-1's layer has no norm before attention. */
  readonly inputNorm?: boolean;
}

/** The pre-norm layer of the Llama family. */
export function runLayer(
  x: Tensor, // [batch, position, hidden]
  name: string,
  sizes: LayerSizes,
  context: AttentionContext,
  past?: KeyValueRows,
  { inputNorm = true }: LayerOptions = {},
): LayerResult {
  const normed = inputNorm ? normalise(x, `${name}.input_layernorm`, sizes) : x;
  const attention = attend(normed, `${name}.self_attn`, sizes, context, past);
  const middle = add(x, attention.hidden);
  const mlp = feedForward(normalise(middle, `${name}.post_attention_layernorm`, sizes), `${name}.mlp`, sizes);
  return { hidden: add(middle, mlp), rows: attention.rows };
}
