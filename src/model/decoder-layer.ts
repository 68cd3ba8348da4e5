/**
 * One transformer layer as graph-building functions: the piece that targets, draft models, EAGLE heads and Hydra's
 * prefix layer have in common. Attention reads the past (rows of a cache, one copy for the whole batch) and the new
 * rows separately and joins only their scores, so nothing of the length of the context is ever copied.
 */
import type { Dimension } from '../graph/dimension.js';
import { addDimensions, equalDimensions, multiplyDimensions, subtractDimensions } from '../graph/dimension.js';
import type { Tensor } from '../graph/tensor.js';
import { contract, matmul } from '../graph/operations/contraction.js';
import { add, multiply, silu } from '../graph/operations/elementwise.js';
import { weight } from '../graph/operations/leaves.js';
import { rmsNorm, softmax, sum } from '../graph/operations/reductions.js';
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
  { past, earlier, drafted }: AttentionMemory = {},
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
  const diagonal = drafted === undefined ? [] : [...drafted.diagonal, rows];
  const { lanes, mask } = context;
  const sizeOf = {
    b: batch,
    // To attention, lanes are so many more heads.
    t: lanes === undefined ? position : mask.shape.at(-2)!,
    k: multiplyDimensions(keyValueHeadCount, lanes ?? 1),
    g: headCount / keyValueHeadCount,
    d: headSize,
  };
  // Axes of length 1 are left out where nothing needs them: every reshaping saved is time saved at each token.
  const keep = (axis: 'b' | 'g'): string => (sizeOf[axis] === 1 && diagonal.length === 0 ? '' : axis);
  const axes = { b: keep('b'), g: keep('g') };
  const shape = (names: string): Dimension[] =>
    listAxes(names).map((axis) => sizeOf[axis as keyof typeof sizeOf]);
  const queryAxes = `${axes.b} t k ${axes.g} d`;
  const queries = reshape(turned('q_proj', headCount, 'q_norm'), shape(queryAxes));
  const visible = drafted?.rows ?? joinRows(earlier, rows);
  // In lanes: [visible, lanes * keyValueHead, headSize], as the past is.
  const laneShape = (): Dimension[] => [
    subtractDimensions(mask.shape.at(-1)!, past?.keys.shape[0] ?? 0),
    sizeOf.k,
    headSize,
  ];
  const arrange = (x: Tensor): Tensor =>
    axes.b === '' ? reshape(x, lanes === undefined ? x.shape.slice(1) : laneShape()) : x;
  const mixed = mixValues(axes, queries, sizes, context, {
    past,
    rows: { keys: arrange(visible.keys), values: arrange(visible.values) },
    diagonal,
  });
  const mixedAxes = listAxes(`${axes.b} k ${axes.g} t d`);
  const positionFirst = transpose(
    mixed,
    listAxes(queryAxes).map((axis) => mixedAxes.indexOf(axis)),
  );
  const joined = reshape(positionFirst, [batch, position, headCount * headSize]);
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

const listAxes = (names: string): string[] => names.split(' ').filter(Boolean);

interface Visible {
  readonly past: KeyValueRows | undefined;
  readonly rows: KeyValueRows;
  readonly diagonal: readonly KeyValueRows[];
}

/** Softmax over everything visible at once; the parts are joined as scores and parted again as weights. */
function mixValues(
  { b, g }: { readonly b: string; readonly g: string },
  queries: Tensor, // [batch, position, keyValueHead, group, headSize], b and g where they are kept
  { headCount }: Pick<LayerSizes, 'headCount'>,
  { mask, lanes }: AttentionContext,
  { past, rows, diagonal }: Visible,
): Tensor {
  const scale = 1 / Math.sqrt(queries.shape.at(-1) as number);
  const newScores = contract(queries, rows.keys, `${b} t k ${g} d, ${b} u k d -> ${b} k ${g} t u`, scale);
  const pastScores =
    past === undefined
      ? []
      : [contract(queries, past.keys, `${b} t k ${g} d, p k d -> ${b} k ${g} t p`, scale)];
  const scores = concatenate([...pastScores, newScores], -1);
  const [position, visible] = scores.shape.slice(-2) as [Dimension, Dimension];
  const masked =
    lanes === undefined
      ? add(scores, mask)
      : reshape(add(reshape(scores, [lanes, headCount, position, visible]), mask), scores.shape);
  const diagonalScores = diagonal.map(({ keys }) => {
    const products = sum(multiply(queries, multiply(spreadGroups(keys), scale)), [-1]);
    return transpose(products, [0, 2, 3, 1, 4]);
  });
  const distribution = softmax(concatenate([masked, ...diagonalScores], -1)); // [batch, keyValueHead, group, position, visible]

  let seen: Dimension = 0;
  const takeWeights = (length: Dimension): Tensor => {
    const start = seen;
    seen = addDimensions(start, length);
    return equalDimensions(length, distribution.shape.at(-1)!)
      ? distribution
      : slice(distribution, -1, start, seen);
  };
  const parts: Tensor[] = [];
  if (past !== undefined) {
    const weights = takeWeights(past.keys.shape[0]!);
    parts.push(contract(weights, past.values, `${b} k ${g} t p, p k d -> ${b} k ${g} t d`));
  }
  const newWeights = takeWeights(rows.keys.shape.at(-3)!);
  parts.push(contract(newWeights, rows.values, `${b} k ${g} t u, ${b} u k d -> ${b} k ${g} t d`));
  for (const { values } of diagonal) {
    parts.push(multiply(takeWeights(1), transpose(spreadGroups(values), [0, 2, 3, 1, 4])));
  }
  return parts.reduce((left, right) => add(left, right));
}

/** [batch, position, keyValueHead, headSize] -> [batch, position, keyValueHead, 1, headSize] */
function spreadGroups(x: Tensor): Tensor {
  return reshape(x, [...x.shape.slice(0, 3), 1, x.shape[3]!]);
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
  const attention = attend(normed, `${name}.self_attn`, sizes, context, memory);
  const middle = add(x, attention.hidden);
  const mlp = feedForward(normalise(middle, `${name}.post_attention_layernorm`, sizes), `${name}.mlp`, sizes);
  return { hidden: add(middle, mlp), rows: attention.rows };
}
