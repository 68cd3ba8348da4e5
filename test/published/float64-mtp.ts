/**
 * The reference of MiMo's MTP module. Row t reads the target's residual stream behind its last layer at t and the token at
 * t + 1, each behind a norm of the module's own; a layer of Qwen2's form and a norm follow. A draft continues with what
 * that norm gives.
 */
import type { WritableTensors } from '../support/checkpoint/encode-values.js';
import type { Scorer } from './float64-drafters.js';
import { scoreWithHead, type Head } from './float64-eagle.js';
import { runLayer, type LayerFacts } from './float64-layer.js';
import type { DecoderPass, Float64Model } from './float64-model.js';
import { Float64Weights, joinVectors, logSoftmax, type Vector } from './float64-tensors.js';

/** Where the target's state is taken: behind its last layer, behind the final norm, or before the last layer. */
type TargetState = 'last residual' | 'normed' | 'earlier residual';

const stateOf: Readonly<Record<TargetState, (pass: DecoderPass, position: number) => Vector>> = {
  'last residual': ({ streams }, position) => streams.at(-1)![position]!,
  'earlier residual': ({ streams }, position) => streams.at(-2)![position]!,
  normed: ({ features }, position) => features[position]!,
};

export interface MtpFacts extends LayerFacts {
  readonly order: 'state, token' | 'token, state';
  /** The embedding in the first row is zero. */
  readonly hidesFirstToken: boolean;
  readonly reads: TargetState;
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
    trueFeature: ({ pass }, position) => stateOf[facts.reads](pass, position),
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
