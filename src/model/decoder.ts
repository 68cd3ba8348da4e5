/**
 * The decoder, and one transformer layer as targets, draft models, EAGLE heads and Hydra's prefix layer have it.
 * Attention reads past and new rows separately and joins only their scores, so nothing of the context's length is
 * copied.
 */
import { multiplyDimensions, subtractDimensions, type Dimension } from '../graph/dimension.js';
import { attention, type AttentionSegment, rotate } from '../graph/operations/attention.js';
import { contract, matmul } from '../graph/operations/contraction.js';
import { add, multiply, silu } from '../graph/operations/elementwise.js';
import { gatherRows } from '../graph/operations/indexing.js';
import { weight, type SegmentKind, type Tensor } from '../graph/tensor.js';
import { rmsNorm } from '../graph/operations/reductions.js';
import { concatenate, reshape, transpose } from '../graph/operations/shaping.js';
import type { ModelConfiguration } from './configuration.js';
import { expertsOf, mixExperts, type Experts } from './experts.js';

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
  | 'cacheType'
>;

export interface AttentionContext {
  readonly cosine: Tensor; // [position, headSize / 2]
  readonly sine: Tensor; // [position, headSize / 2]
  /** [position, past + position], without a past [position, position]; [batch, ...] if they differ. */
  readonly mask: Tensor;
  /**
   * Several sequences, each with its own past: row r of lane s is at r * lanes + s, the past has lanes * keyValueHead
   * heads, the mask is [lanes, 1, row, past + row].
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

export interface DraftedRows {
  readonly rows: KeyValueRows;
  readonly diagonal: readonly KeyValueRows[]; // [earlier depth]
}

export interface AttentionMemory {
  /** Before the past, common to all lanes; included in the mask. */
  readonly prefix?: KeyValueRows | undefined; // [prefix, keyValueHead, headSize]
  readonly past?: KeyValueRows | undefined; // [past, keyValueHead, headSize]
  /** Instead of a past: with room for the new rows, which a kernel may write there. */
  readonly cache?: KeyValueRows | undefined; // [1, keyValueHead, room, headSize]
  /** Between the past and the new rows; included in the mask. */
  readonly earlier?: KeyValueRows | undefined; // [batch, earlier, keyValueHead, headSize]
  /**
   * For teacher-forced drafts: row t sees the given rows up to t, and of each earlier depth only row t.
   */
  readonly drafted?: DraftedRows | undefined;
}

type Angles = Pick<AttentionContext, 'cosine' | 'sine'>;

function projectHeads(x: Tensor, name: string, sizes: LayerSizes, count: number): Tensor {
  const [batch, position, inputSize] = x.shape as [Dimension, Dimension, number];
  const flat = project(x, name, inputSize, count * sizes.headSize, sizes.queryKeyValueBias);
  return reshape(flat, [batch, position, count, sizes.headSize]);
}

function rotateHeads(raw: Tensor, norm: string, sizes: LayerSizes, { cosine, sine }: Angles): Tensor {
  const scale = weight(`${norm}.weight`, [sizes.headSize]);
  return rotate(sizes.queryKeyNorm ? rmsNorm(raw, scale, sizes.normEpsilon) : raw, cosine, sine);
}

/** [batch, position, inputSize] -> [batch, position, head, headSize] */
export function projectQueries(x: Tensor, name: string, sizes: LayerSizes, angles: Angles): Tensor {
  const raw = projectHeads(x, `${name}.q_proj`, sizes, sizes.headCount);
  return rotateHeads(raw, `${name}.q_norm`, sizes, angles);
}

/** [batch, position, inputSize] -> [batch, position, keyValueHead, headSize] */
export function projectRows(x: Tensor, name: string, sizes: LayerSizes, angles: Angles): KeyValueRows {
  const heads = (part: string): Tensor => projectHeads(x, `${name}.${part}`, sizes, sizes.keyValueHeadCount);
  return { keys: rotateHeads(heads('k_proj'), `${name}.k_norm`, sizes, angles), values: heads('v_proj') };
}

/** The input may be wider than the hidden size (EAGLE-3). */
export function attend(
  x: Tensor, // [batch, position, inputSize]
  name: string,
  sizes: LayerSizes,
  context: AttentionContext,
  { prefix, past, cache, earlier, drafted }: AttentionMemory = {},
): LayerResult {
  const { headCount, keyValueHeadCount, headSize, hiddenSize, cacheType } = sizes;
  const [batch, position] = x.shape as [Dimension, Dimension];
  const rows = projectRows(x, name, sizes, context);
  const { mask, lanes = 1 } = context;
  const [ownRows, seen] = mask.shape.slice(-2) as [Dimension, Dimension];
  // Lanes are additional heads.
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
  const ownLength = cache === undefined ? behind.reduce(subtractDimensions, seen) : ownRows;
  const mixed = attention(
    arrange(projectQueries(x, name, sizes, context), ownRows, headCount),
    [
      ...(cache === undefined ? [] : [{ kind: 'cache' as const, ...cache }]),
      ...(prefix === undefined ? [] : [{ kind: 'common' as const, ...prefix }]),
      ...(past === undefined ? [] : [{ kind: 'shared' as const, ...past }]),
      segment('own', visible, ownLength),
      ...(drafted === undefined ? [] : [...drafted.diagonal, rows]).map((diagonal) =>
        segment('diagonal', diagonal, ownRows),
      ),
    ],
    mask,
    { heads: headCount, keyValueHeads: keyValueHeadCount, scale: 1 / Math.sqrt(headSize), cacheType },
  );
  const joined = reshape(mixed, [batch, position, headCount * headSize]);
  const hidden = project(joined, `${name}.o_proj`, headCount * headSize, hiddenSize, sizes.outputBias);
  return { hidden, rows };
}

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
  readonly inputNorm?: boolean | undefined;
  /** Instead of one MLP. */
  readonly experts?: Experts | undefined;
}

export function runLayer(
  x: Tensor, // [batch, position, hidden]
  name: string,
  sizes: LayerSizes,
  context: AttentionContext,
  memory: AttentionMemory,
  { inputNorm = true, experts }: LayerOptions = {},
): LayerResult {
  const normed = inputNorm ? normalise(x, `${name}.input_layernorm`, sizes) : x;
  const attended = attend(normed, `${name}.self_attn`, sizes, context, memory);
  const middle = add(x, attended.hidden);
  const after = normalise(middle, `${name}.post_attention_layernorm`, sizes);
  const mlp =
    experts === undefined
      ? feedForward(after, `${name}.mlp`, sizes)
      : mixExperts(after, `${name}.mlp`, experts);
  return { hidden: add(middle, mlp), rows: attended.rows };
}

export interface DecoderOptions {
  readonly context: AttentionContext;
  readonly prefix?: readonly KeyValueRows[] | undefined; // [layer]
  readonly past?: readonly KeyValueRows[] | undefined; // [layer]
  readonly caches?: readonly KeyValueRows[] | undefined; // [layer]
  readonly earlier?: readonly KeyValueRows[] | undefined; // [layer]
  readonly drafted?: readonly DraftedRows[] | undefined; // [layer]
  readonly taps?: readonly number[] | undefined;
}

/** `scope`: prefix of the weight names. `taps`: layers whose inputs are returned; the layer count means after the last. */
export function runDecoder(
  configuration: ModelConfiguration,
  scope: string,
  embeddings: Tensor, // [batch, position, hidden]
  { context, prefix, past, caches, earlier, drafted, taps = [] }: DecoderOptions,
) {
  let hidden = embeddings;
  const streams: Tensor[] = [];
  const rows: KeyValueRows[] = [];
  for (let layer = 0; layer < configuration.layerCount; layer++) {
    streams.push(hidden);
    const memory = {
      prefix: prefix?.[layer],
      past: past?.[layer],
      cache: caches?.[layer],
      earlier: earlier?.[layer],
      drafted: drafted?.[layer],
    };
    const experts = expertsOf(configuration, layer);
    const name = `${scope}layers.${layer}`;
    const result = runLayer(hidden, name, configuration, context, memory, { experts });
    hidden = result.hidden;
    rows.push(result.rows);
  }
  streams.push(hidden);
  return {
    features: normalise(hidden, `${scope}norm`, configuration), // [batch, position, hidden]
    taps: taps.map((layer) => streams[layer]!),
    rows,
  };
}

export function embeddingTable({ vocabularySize, hiddenSize }: ModelConfiguration, scope: string): Tensor {
  return weight(`${scope}embed_tokens.weight`, [vocabularySize, hiddenSize]);
}

export function embedTokens(configuration: ModelConfiguration, scope: string, tokens: Tensor): Tensor {
  return gatherRows(embeddingTable(configuration, scope), tokens);
}

/** features [row, hidden] -> logits [row, vocabulary] */
export function projectToVocabulary(
  configuration: ModelConfiguration,
  scope: string,
  features: Tensor,
): Tensor {
  if (configuration.tiedEmbeddings) return scoreTokens(features, embeddingTable(configuration, scope));
  return matmul(features, outputMatrix(configuration, scope));
}

/** The logits of some tokens [token]. */
export function projectToTokens(
  configuration: ModelConfiguration,
  scope: string,
  features: Tensor,
  tokens: Tensor,
): Tensor {
  const table = configuration.tiedEmbeddings
    ? embeddingTable(configuration, scope)
    : transpose(outputMatrix(configuration, scope), [1, 0]);
  return scoreTokens(features, gatherRows(table, tokens));
}

const outputMatrix = ({ hiddenSize, vocabularySize }: ModelConfiguration, scope: string): Tensor =>
  weight(`${scope}lm_head.weight`, [hiddenSize, vocabularySize]);

/** features [..., hidden], table [token, hidden] */
function scoreTokens(features: Tensor, table: Tensor): Tensor {
  const leading = features.shape
    .slice(0, -1)
    .map((_, axis) => `a${axis}`)
    .join(' ');
  return contract(features, table, `${leading} h, v h -> ${leading} v`);
}
