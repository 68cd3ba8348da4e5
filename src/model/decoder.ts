/** The Llama-family decoder as graph-building functions. */
import type { Tensor } from '../graph/tensor.js';
import { contract, matmul } from '../graph/operations/contraction.js';
import { weight } from '../graph/operations/leaves.js';
import { gatherRows } from '../graph/operations/indexing.js';
import type { ModelConfiguration } from './configuration.js';
import type { AttentionContext, KeyValueRows } from './decoder-layer.js';
import { normalise, runLayer } from './decoder-layer.js';

export interface DecoderResult {
  /** After the final norm: what the output projection and most drafters read. [batch, position, hidden] */
  readonly features: Tensor;
  /** The residual stream before the given layers, in their order; the layer count itself means after the last. */
  readonly taps: readonly Tensor[]; // [batch, position, hidden] each
  /** New rows of each layer. */
  readonly rows: readonly KeyValueRows[];
}

export interface DecoderOptions {
  readonly context: AttentionContext;
  readonly prefix?: readonly KeyValueRows[] | undefined; // [layer]
  readonly past?: readonly KeyValueRows[]; // [layer]
  readonly earlier?: readonly KeyValueRows[]; // [layer]
  readonly taps?: readonly number[];
}

/** `scope` is the prefix under which the model's weights are stored, so that several models share one program. */
export function runDecoder(
  configuration: ModelConfiguration,
  scope: string,
  embeddings: Tensor, // [batch, position, hidden]
  { context, prefix, past, earlier, taps = [] }: DecoderOptions,
): DecoderResult {
  let hidden = embeddings;
  const streams: Tensor[] = [];
  const rows: KeyValueRows[] = [];
  for (let layer = 0; layer < configuration.layerCount; layer++) {
    streams.push(hidden);
    const result = runLayer(hidden, `${scope}layers.${layer}`, configuration, context, {
      prefix: prefix?.[layer],
      past: past?.[layer],
      earlier: earlier?.[layer],
    });
    hidden = result.hidden;
    rows.push(result.rows);
  }
  streams.push(hidden);
  return {
    features: normalise(hidden, `${scope}norm`, configuration),
    taps: taps.map((layer) => streams[layer]!),
    rows,
  };
}

export function embeddingTable({ vocabularySize, hiddenSize }: ModelConfiguration, scope: string): Tensor {
  return weight(`${scope}embed_tokens.weight`, [vocabularySize, hiddenSize]);
}

/** tokens [...] -> [..., hidden] */
export function embedTokens(configuration: ModelConfiguration, scope: string, tokens: Tensor): Tensor {
  return gatherRows(embeddingTable(configuration, scope), tokens);
}

/** features [row, hidden] -> logits [row, vocabulary] */
export function projectToVocabulary(
  configuration: ModelConfiguration,
  scope: string,
  features: Tensor,
): Tensor {
  const { hiddenSize, vocabularySize, tiedEmbeddings } = configuration;
  const leading = features.shape
    .slice(0, -1)
    .map((_, axis) => `a${axis}`)
    .join(' ');
  return tiedEmbeddings
    ? contract(features, embeddingTable(configuration, scope), `${leading} h, v h -> ${leading} v`)
    : matmul(features, weight(`${scope}lm_head.weight`, [hiddenSize, vocabularySize]));
}
