import type { Tensor } from '../graph/tensor.js';
import { contract, matmul } from '../graph/operations/contraction.js';
import { weight } from '../graph/operations/leaves.js';
import { gatherRows } from '../graph/operations/indexing.js';
import type { ModelConfiguration } from './configuration.js';
import { normalise, runLayer, type AttentionContext, type KeyValueRows } from './decoder-layer.js';

export interface DecoderResult {
  /** After the final norm. [batch, position, hidden] */
  readonly features: Tensor;
  /** Inputs of the given layers; the layer count means after the last. */
  readonly taps: readonly Tensor[]; // [batch, position, hidden] each
  readonly rows: readonly KeyValueRows[];
}

export interface DecoderOptions {
  readonly context: AttentionContext;
  readonly prefix?: readonly KeyValueRows[] | undefined; // [layer]
  readonly past?: readonly KeyValueRows[] | undefined; // [layer]
  readonly earlier?: readonly KeyValueRows[] | undefined; // [layer]
  readonly taps?: readonly number[] | undefined;
}

/** `scope`: prefix of the weight names. */
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
