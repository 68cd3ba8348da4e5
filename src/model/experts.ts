/**
 * Mixtures of experts: a router chooses a few of many small MLPs for each token and weighs their outputs. The choice
 * itself is constant in gradients; the weights are not.
 */
import * as z from '../core/schema.js';
import { multiplyDimensions, type Dimension } from '../graph/dimension.js';
import { matmul, expertProduct } from '../graph/operations/contraction.js';
import { divide, multiply, silu } from '../graph/operations/elementwise.js';
import { topIndices, topValues } from '../graph/operations/indexing.js';
import { weight, type Tensor } from '../graph/tensor.js';
import { softmax, sum } from '../graph/operations/reductions.js';
import { broadcast, reshape, slice } from '../graph/operations/shaping.js';

export interface Experts {
  readonly count: number;
  readonly perToken: number;
  readonly intermediateSize: number;
  /** Whether the weights of the chosen experts are divided by their sum. */
  readonly normalizesWeights: boolean;
  /** Every `step`-th layer has experts, except `denseLayers`. */
  readonly step: number;
  readonly denseLayers: readonly number[];
}

/** Published models have up to 512. */
const maxExperts = 4096;

const count = z.number().int().positive();
export const expertSchema = z.object({
  num_experts: count.max(maxExperts),
  num_experts_per_tok: count,
  moe_intermediate_size: count,
  norm_topk_prob: z.boolean().default(false),
  decoder_sparse_step: count.default(1),
  mlp_only_layers: z.array(z.number().int().nonnegative()).nullish(),
});

export function createExperts(fields: z.infer<typeof expertSchema>): Experts {
  return {
    count: fields.num_experts,
    perToken: fields.num_experts_per_tok,
    intermediateSize: fields.moe_intermediate_size,
    normalizesWeights: fields.norm_topk_prob,
    step: fields.decoder_sparse_step,
    denseLayers: [...new Set(fields.mlp_only_layers ?? [])],
  };
}

/** Undefined for a layer with a single MLP. */
export function expertsOf(
  { experts }: { readonly experts?: Experts | undefined },
  layer: number,
): Experts | undefined {
  const isSparse =
    experts !== undefined && (layer + 1) % experts.step === 0 && !experts.denseLayers.includes(layer);
  return isSparse ? experts : undefined;
}

interface LayerMlps {
  readonly layerCount: number;
  readonly intermediateSize: number;
  readonly experts?: Experts | undefined;
}

export function countSparseLayers({ layerCount, experts }: LayerMlps): number {
  if (experts === undefined) return 0;
  const dense = experts.denseLayers.filter((layer) => layer < layerCount && (layer + 1) % experts.step === 0);
  return Math.floor(layerCount / experts.step) - dense.length;
}

/** Inner values of the MLPs that one token runs through, averaged over the layers. */
export function mlpWidthPerToken(model: LayerMlps): number {
  const { layerCount, intermediateSize, experts } = model;
  if (experts === undefined) return intermediateSize;
  const sparse = countSparseLayers(model);
  const width = experts.perToken * experts.intermediateSize;
  return (sparse * width + (layerCount - sparse) * intermediateSize) / layerCount;
}

export function mixExperts(x: Tensor, name: string, experts: Experts): Tensor {
  const { count: all, perToken, intermediateSize } = experts;
  const [batch, position, hiddenSize] = x.shape as [Dimension, Dimension, number];
  const shares = softmax(matmul(x, weight(`${name}.gate.weight`, [hiddenSize, all])));
  const best = topValues(shares, perToken); // [batch, position, choice]
  const weights = experts.normalizesWeights ? divide(best, sum(best, [-1])) : best;
  const rowCount = [batch, position, perToken].reduce(multiplyDimensions);
  const chosen = reshape(topIndices(shares, perToken), [rowCount]);
  const repeated = broadcast(reshape(x, [batch, position, 1, hiddenSize]), [
    batch,
    position,
    perToken,
    hiddenSize,
  ]);
  const rows = reshape(repeated, [rowCount, hiddenSize]);
  const table = (part: string, from: number, to: number): Tensor =>
    weight(`${name}.experts.${part}.weight`, [from, all * to]);
  const inner = expertProduct(rows, table('gate_up', hiddenSize, 2 * intermediateSize), chosen, all);
  const gate = silu(slice(inner, 1, 0, intermediateSize));
  const up = slice(inner, 1, intermediateSize, 2 * intermediateSize);
  const down = expertProduct(multiply(gate, up), table('down', intermediateSize, hiddenSize), chosen, all);
  const outputs = reshape(down, [batch, position, perToken, hiddenSize]);
  const mixed = sum(multiply(outputs, reshape(weights, [batch, position, perToken, 1])), [2]);
  return reshape(mixed, x.shape);
}
