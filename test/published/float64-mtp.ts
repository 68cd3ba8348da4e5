/**
 * The reference of MiMo's MTP module. Row t reads the target's final state at t and the token at t + 1, each behind a norm
 * of its own; a layer of Qwen2's form and a norm follow. A draft goes on with what that norm gives.
 */
import type { WritableTensors } from '../support/checkpoint/encode-values.js';
import type { Scorer } from './float64-drafters.js';
import { scoreWithHead, type Head } from './float64-eagle.js';
import { runLayer, type LayerFacts } from './float64-layer.js';
import type { Float64Model } from './float64-model.js';
import { Float64Weights, joinVectors, logSoftmax, type Vector } from './float64-tensors.js';

export interface MtpFacts extends LayerFacts {
  readonly order: 'state, token' | 'token, state';
  /** The embedding in the first row is zero. */
  readonly hidesFirstToken: boolean;
  /** Behind the target's final norm. */
  readonly readsNormed: boolean;
  readonly feedsNormed: boolean;
  /** Norms to leave out; none in the published module. */
  readonly withoutNorm?: string;
}

export function scoreWithMtp(tensors: WritableTensors, target: Float64Model, facts: MtpFacts): Scorer {
  const weights = new Float64Weights(tensors);
  const module = 'model.mtp_layers.0';
  const norm = (name: string, x: Vector): Vector =>
    name === facts.withoutNorm ? x : weights.norm(`${module}.${name}`, x, facts.normEpsilon);
  const head: Head = {
    weights,
    trueFeature: ({ pass }, position) =>
      facts.readsNormed ? pass.features[position]! : pass.streams.at(-1)![position]!,
    run(features, embeddings) {
      const fused = features.map((feature, row) => {
        const isHidden = row === 0 && facts.hidesFirstToken;
        const embedding = isHidden ? new Float64Array(feature.length) : embeddings[row]!;
        const parts = [norm('hidden_layernorm', feature), norm('token_layernorm', embedding)];
        if (facts.order === 'token, state') parts.reverse();
        return weights.linear(`${module}.input_proj`, joinVectors(...parts));
      });
      return runLayer(weights, module, fused, facts, fused.length - 1)[0]!;
    },
    feedBack: (output) => (facts.feedsNormed ? norm('final_layernorm', output) : output),
    score: (output) => logSoftmax(target.project(norm('final_layernorm', output))),
  };
  return scoreWithHead(head, target);
}
