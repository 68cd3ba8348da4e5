/**
 * The reference of every drafter that needs no feature of its own fed back: draft model, PARD, Medusa (arXiv 2401.10774) and
 * Hydra (arXiv 2402.05109). Each call scores one node from scratch.
 */
import type { WritableTensors } from '../support/checkpoint/encode-values.js';
import type { LayerFacts } from './float64-layer.js';
import { runLayer } from './float64-layer.js';
import type { DecoderPass, Float64Model } from './float64-model.js';
import type { Vector } from './float64-tensors.js';
import { addVectors, Float64Weights, joinVectors, logSoftmax, silu } from './float64-tensors.js';

/** A text that the target has read, and the place of the token behind which is drafted. */
export interface Situation {
  readonly pass: DecoderPass;
  /** Tokens before this one are verified with their states; of the root itself only the token is known. */
  readonly root: number;
}

/**
 * Log-probabilities of the token behind a path of drafted tokens, over the target's vocabulary; -Infinity for tokens
 * that the drafter cannot propose.
 */
export type Scorer = (situation: Situation, path: readonly number[]) => Vector;

/** Where the vocabularies differ, only the ids that both have can be proposed. */
export function scoreWithDraftModel(draftModel: Float64Model, targetVocabulary: number): Scorer {
  return ({ pass, root }, path) => {
    const logits = draftModel.run([...pass.tokens.slice(0, root + 1), ...path]).logits.at(-1)!;
    const shared = logSoftmax(logits.slice(0, targetVocabulary));
    return Float64Array.from({ length: targetVocabulary }, (_, token) => shared[token] ?? -Infinity);
  };
}

/** PARD: one mask for each token that was drafted before, whatever it is. */
export function scoreWithPard(draftModel: Float64Model, targetVocabulary: number, mask: number): Scorer {
  const score = scoreWithDraftModel(draftModel, targetVocabulary);
  return (situation, path) =>
    score(
      situation,
      path.map(() => mask),
    );
}

/** x + SiLU(W x + b) */
function residualBlock(weights: Float64Weights, name: string, x: Vector): Vector {
  return addVectors(x, silu(weights.linear(name, x)));
}

export interface MedusaNames {
  readonly layers: number;
  readonly block: (head: number, layer: number) => string;
  readonly output: (head: number) => string;
}

/** Head i predicts the token i + 2 behind the last verified position, whatever lies between. */
export function scoreWithMedusa(tensors: WritableTensors, { layers, block, output }: MedusaNames): Scorer {
  const weights = new Float64Weights(tensors);
  return ({ pass, root }, path) => {
    const head = path.length;
    let hidden = pass.features[root - 1]!;
    for (let layer = 0; layer < layers; layer++) hidden = residualBlock(weights, block(head, layer), hidden);
    return logSoftmax(weights.linear(output(head), hidden));
  };
}

export interface HydraFacts {
  readonly layers: number;
  /** Hydra++'s own layer over the verified features. */
  readonly prefix?: LayerFacts;
}

/** Head i reads the feature and the embeddings of the root and of i drafted tokens. */
export function scoreWithHydra(
  tensors: WritableTensors,
  target: Float64Model,
  { layers, prefix }: HydraFacts,
): Scorer {
  const weights = new Float64Weights(tensors);
  // In prefix-mlp a dropout stands before every module of a list.
  const place = (block: number): number => (prefix === undefined ? block : 2 * block + 1);
  const featureOf = ({ pass, root }: Situation): Vector => {
    const verified = pass.features.slice(0, root);
    if (prefix === undefined) return verified.at(-1)!;
    const [newest] = runLayer(weights, 'prefix_embeding_layer.layers.0', verified, prefix, root - 1);
    return weights.norm('prefix_embeding_layer.norm', newest!, prefix.normEpsilon);
  };
  return (situation, path) => {
    const head = path.length;
    const seen = [situation.pass.tokens[situation.root]!, ...path];
    const joined = joinVectors(featureOf(situation), ...seen.map((token) => target.embed(token)));
    const first = `hydra_mlp.${head}.${place(0)}`;
    let hidden = addVectors(
      weights.linear(`${first}.res_connection`, joined),
      silu(weights.linear(`${first}.linear`, joined)),
    );
    for (let block = 1; block < layers; block++) {
      hidden = residualBlock(weights, `hydra_mlp.${head}.${place(block)}.linear`, hidden);
    }
    return logSoftmax(
      weights.linear(prefix === undefined ? `hydra_lm_head.${head}` : `hydra_lm_head.${head}.1`, hidden),
    );
  };
}
