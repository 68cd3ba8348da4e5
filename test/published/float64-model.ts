/** A decoder of the Llama family in double precision: logits, final features and the residual stream at every layer. */
import type { WritableTensors } from '../support/checkpoint/encode-values.js';
import type { LayerFacts } from './float64-layer.js';
import { runLayer } from './float64-layer.js';
import type { Vector } from './float64-tensors.js';
import { Float64Weights } from './float64-tensors.js';

export interface DecoderFacts extends LayerFacts {
  readonly layers: number;
}

export interface DecoderPass {
  readonly tokens: readonly number[];
  readonly logits: readonly Vector[]; // [position] -> [vocabulary]
  /** Behind the final norm: what the output projection reads. */
  readonly features: readonly Vector[]; // [position] -> [hidden]
  /** The residual stream before each layer, and behind the last one. */
  readonly streams: readonly (readonly Vector[])[]; // [layer][position] -> [hidden]
}

export class Float64Model {
  readonly weights: Float64Weights;

  constructor(
    tensors: WritableTensors,
    private readonly facts: DecoderFacts,
  ) {
    this.weights = new Float64Weights(tensors);
  }

  embed(token: number): Vector {
    return this.weights.row('model.embed_tokens.weight', token);
  }

  /** The output projection, or the embedding where the two are tied. */
  project(feature: Vector): Vector {
    if (this.weights.has('lm_head.weight')) return this.weights.linear('lm_head', feature);
    const [vocabulary] = this.weights.shape('model.embed_tokens.weight') as [number];
    return Float64Array.from({ length: vocabulary }, (_, token) =>
      this.embed(token).reduce((sum, value, index) => sum + value * feature[index]!, 0),
    );
  }

  run(tokens: readonly number[]): DecoderPass {
    const streams: Vector[][] = [tokens.map((token) => this.embed(token))];
    for (let layer = 0; layer < this.facts.layers; layer++) {
      streams.push(runLayer(this.weights, `model.layers.${layer}`, streams[layer]!, this.facts));
    }
    const features = streams
      .at(-1)!
      .map((hidden) => this.weights.norm('model.norm', hidden, this.facts.normEpsilon));
    return { tokens, features, streams, logits: features.map((feature) => this.project(feature)) };
  }
}
