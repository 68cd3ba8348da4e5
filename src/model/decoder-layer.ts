/**
 * One transformer layer as graph-building functions: the piece that targets, draft models, EAGLE heads and Hydra's
 * prefix layer have in common. Attention reads the past (rows of a cache, one copy for the whole batch) and the new
 * rows separately and joins only their scores, so nothing of the length of the context is ever copied.
 */
import type { Dimension } from '../graph/dimension.js';
import { multiplyDimensions, subtractDimensions } from '../graph/dimension.js';
import type { SegmentKind, Tensor } from '../graph/tensor.js';
import type { AttentionSegment } from '../graph/operations/attention.js';
import { attention } from '../graph/operations/attention.js';
import { matmul } from '../graph/operations/contraction.js';
import { add, multiply, silu } from '../graph/operations/elementwise.js';
import { weight } from '../graph/operations/leaves.js';
import { rmsNorm } from '../graph/operations/reductions.js';
import { rotate } from '../graph/operations/rotation.js';
import { concatenate, reshape } from '../graph/operations/shaping.js';
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
  /** Added to the scores. [position, past + position], without a past [position, position]; [batch, ...] where each has its own. */
  readonly mask: Tensor;
  /**
   * Several sequences at once, each with a past of its own: positions are rows of all of them side by side (row r of
   * lane s at r * lanes + s), the past has lanes * keyValueHead heads, the mask is [lanes, 1, row, past + row].
   */
  readonly lanes?: Dimension | undefined;
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

/** What the new rows may look at besides each other. */
export interface AttentionMemory {
  /** Before the past, one copy for all lanes; the mask has columns for it. */
  readonly prefix?: KeyValueRows | undefined; // [prefix, keyValueHead, headSize]
  readonly past?: KeyValueRows | undefined; // [past, keyValueHead, headSize]
  /** Rows of the same sequence between the past and the new rows; the mask has columns for them too. */
  readonly earlier?: KeyValueRows | undefined; // [batch, earlier, keyValueHead, headSize]
  /**
   * For drafts along known tokens: row t sees the given rows up to t instead of its own kind, and of every earlier
   * depth of the same draft just the row t (the diagonal).
   */
  readonly drafted?: { readonly rows: KeyValueRows; readonly diagonal: readonly KeyValueRows[] };
}

/** Attention whose input may be wider than the hidden size (EAGLE-3 feeds embedding and feature side by side). */
export function attend(
  x: Tensor, // [batch, position, inputSize]
  name: string,
  sizes: LayerSizes,
  context: AttentionContext,
  { prefix, past, earlier, drafted }: AttentionMemory = {},
): LayerResult {
  const { headCount, keyValueHeadCount, headSize, hiddenSize } = sizes;
  const [batch, position, inputSize] = x.shape as [Dimension, Dimension, number];
  const heads = (part: string, count: number): Tensor => {
    const flat = project(x, `${name}.${part}`, inputSize, count * headSize, sizes.queryKeyValueBias);
    return reshape(flat, [batch, position, count, headSize]);
  };
  const turned = (part: string, count: number, norm: string): Tensor => {
    const raw = heads(part, count);
    const scale = weight(`${name}.${norm}.weight`, [headSize]);
    const normed = sizes.queryKeyNorm ? rmsNorm(raw, scale, sizes.normEpsilon) : raw;
    return rotate(normed, context.cosine, context.sine);
  };
  const rows = {
    keys: turned('k_proj', keyValueHeadCount, 'k_norm'),
    values: heads('v_proj', keyValueHeadCount),
  };
  const { mask, lanes = 1 } = context;
  const [ownRows, seen] = mask.shape.slice(-2) as [Dimension, Dimension];
  // To attention, lanes are so many more heads.
  const arrange = (x: Tensor, length: Dimension, count: number): Tensor =>
    reshape(x, [batch, length, multiplyDimensions(count, lanes), headSize]);
  const segment = (
    kind: SegmentKind,
    { keys, values }: KeyValueRows,
    length: Dimension,
  ): AttentionSegment => ({
    kind,
    keys: arrange(keys, length, keyValueHeadCount),
    values: arrange(values, length, keyValueHeadCount),
  });
  const visible = drafted?.rows ?? joinRows(earlier, rows);
  const behind = [prefix, past].map((before) => before?.keys.shape[0] ?? 0);
  const mixed = attention(
    arrange(turned('q_proj', headCount, 'q_norm'), ownRows, headCount),
    [
      ...(prefix === undefined ? [] : [{ kind: 'common' as const, ...prefix }]),
      ...(past === undefined ? [] : [{ kind: 'shared' as const, ...past }]),
      segment('own', visible, behind.reduce(subtractDimensions, seen)),
      ...(drafted === undefined ? [] : [...drafted.diagonal, rows]).map((diagonal) =>
        segment('diagonal', diagonal, ownRows),
      ),
    ],
    mask,
    { heads: headCount, keyValueHeads: keyValueHeadCount, scale: 1 / Math.sqrt(headSize) },
  );
  const joined = reshape(mixed, [batch, position, headCount * headSize]);
  const hidden = project(joined, `${name}.o_proj`, headCount * headSize, hiddenSize, sizes.outputBias);
  return { hidden, rows };
}

/** Rows one after the other along the position axis. */
export function joinRows(first: KeyValueRows | undefined, second: KeyValueRows): KeyValueRows {
  if (first === undefined) return second;
  return {
    keys: concatenate([first.keys, second.keys], 1),
    values: concatenate([first.values, second.values], 1),
  };
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
  memory: AttentionMemory = {},
  { inputNorm = true }: LayerOptions = {},
): LayerResult {
  const normed = inputNorm ? normalise(x, `${name}.input_layernorm`, sizes) : x;
  const attended = attend(normed, `${name}.self_attn`, sizes, context, memory);
  const middle = add(x, attended.hidden);
  const mlp = feedForward(normalise(middle, `${name}.post_attention_layernorm`, sizes), `${name}.mlp`, sizes);
  return { hidden: add(middle, mlp), rows: attended.rows };
}
