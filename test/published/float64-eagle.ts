/**
 * The reference of EAGLE (arXiv 2401.15077, 2406.16858) and EAGLE-3 (arXiv 2503.01840). A head reads pairs of a feature
 * and the token behind it. Up to the root the features are the target's; behind it each is the head's own output for
 * the pair before. Every node is computed anew from the first pair on: there is no cache whose mistakes could hide.
 */
import type { WritableTensors } from '../support/checkpoint/encode-values.js';
import type { Scorer, Situation } from './float64-drafters.js';
import type { LayerFacts } from './float64-layer.js';
import { attend, finishLayer, runLayer } from './float64-layer.js';
import type { Float64Model } from './float64-model.js';
import type { Vector } from './float64-tensors.js';
import { addVectors, Float64Weights, joinVectors, logSoftmax } from './float64-tensors.js';

export interface Head {
  readonly weights: Float64Weights;
  /** The target's state at a verified position as a feature of the head. */
  trueFeature(situation: Situation, position: number): Vector;
  /** What the layer makes of the last pair, with all of them before its eyes. */
  run(features: readonly Vector[], embeddings: readonly Vector[]): Vector;
  /** What is fed back for the next pair. */
  feedBack(output: Vector): Vector;
  score(output: Vector): Vector;
}

/** A table of the head's own wins over the target's. */
function embedWith(weights: Float64Weights, target: Float64Model, token: number): Vector {
  return weights.has('embed_tokens.weight') ? weights.row('embed_tokens.weight', token) : target.embed(token);
}

/** P-EAGLE: the root's pair is the last; then one mask for each token that was drafted before, whatever it is. */
function scoreWithMasks(head: Head, target: Float64Model, token: number, feature: Vector): Scorer {
  return (situation, path) => {
    const { pass, root } = situation;
    const tokens = [...pass.tokens.slice(1, root + 1), ...path.map(() => token)];
    const features = Array.from({ length: root }, (_, position) => head.trueFeature(situation, position));
    return head.score(
      head.run(
        [...features, ...path.map(() => feature)],
        tokens.map((each) => embedWith(head.weights, target, each)),
      ),
    );
  };
}

export function scoreWithHead(head: Head, target: Float64Model): Scorer {
  return (situation, path) => {
    const { pass, root } = situation;
    const tokens = [...pass.tokens.slice(1, root + 1), ...path];
    const embeddings = tokens.map((token) => embedWith(head.weights, target, token));
    const features = Array.from({ length: root }, (_, position) => head.trueFeature(situation, position));
    for (;;) {
      const output = head.run(features, embeddings.slice(0, features.length));
      if (features.length === tokens.length) return head.score(output);
      features.push(head.feedBack(output));
    }
  };
}

/** fc [embedding; feature] through one layer without input norm, and the target's output projection. */
export function scoreWithEagle(tensors: WritableTensors, target: Float64Model, facts: LayerFacts): Scorer {
  const weights = new Float64Weights(tensors);
  const head: Head = {
    weights,
    trueFeature: ({ pass }, position) => pass.features[position]!,
    run(features, embeddings) {
      const fused = features.map((feature, position) =>
        weights.linear('fc', joinVectors(embeddings[position]!, feature)),
      );
      return runLayer(weights, 'layers.0', fused, facts, fused.length - 1)[0]!;
    },
    feedBack: (output) => output,
    score: (output) => logSoftmax(target.project(output)),
  };
  return scoreWithHead(head, target);
}

export interface Eagle3Facts extends LayerFacts {
  /** The layer's name in the file. */
  readonly layer: 'midlayer' | 'layers.0';
  /** Layers of the target before which its residual stream is read. */
  readonly taps: readonly number[];
  /** The residual begins with the normed feature. */
  readonly normBeforeResidual: boolean;
  /** A norm over all taps (`input_norm`), or one for each (`fc_norm`), before they are fused. */
  readonly fusionNorm: 'none' | 'joined' | 'each';
  /** The normed output is fed back. */
  readonly feedsNormed: boolean;
  /** The first reads pairs; the others are plain. */
  readonly layers: number;
  /** P-EAGLE's. */
  readonly maskToken?: number;
  readonly targetVocabulary: number;
}

export function scoreWithEagle3(tensors: WritableTensors, target: Float64Model, facts: Eagle3Facts): Scorer {
  const weights = new Float64Weights(tensors);
  const { layer, normEpsilon, fusionNorm } = facts;
  const finish = (output: Vector): Vector => weights.norm('norm', output, normEpsilon);
  const fuse = (taps: readonly Vector[]): Vector => {
    const each = fusionNorm === 'each';
    const joined = joinVectors(
      ...taps.map((tap, index) => (each ? weights.norm(`fc_norm.${index}`, tap, normEpsilon) : tap)),
    );
    return weights.linear(
      'fc',
      fusionNorm === 'joined' ? weights.norm('input_norm', joined, normEpsilon) : joined,
    );
  };
  const head: Head = {
    weights,
    trueFeature({ pass }, position) {
      return fuse(facts.taps.map((tap) => pass.streams[tap]![position]!));
    },
    run(features, embeddings) {
      const states = features.map((feature) => weights.norm(`${layer}.hidden_norm`, feature, normEpsilon));
      const joined = states.map((state, position) =>
        joinVectors(weights.norm(`${layer}.input_layernorm`, embeddings[position]!, normEpsilon), state),
      );
      let hidden = attend(weights, `${layer}.self_attn`, joined, facts).map((attended, position) => {
        const residual = (facts.normBeforeResidual ? states : features)[position]!;
        return finishLayer(weights, layer, addVectors(residual, attended), facts);
      });
      for (let further = 1; further < facts.layers; further++)
        hidden = runLayer(weights, `layers.${further}`, hidden, facts);
      return hidden.at(-1)!;
    },
    feedBack: (output) => (facts.feedsNormed ? finish(output) : output),
    score: (output) => spread(logSoftmax(weights.linear('lm_head', finish(output))), weights, facts),
  };
  const { maskToken } = facts;
  if (maskToken === undefined) return scoreWithHead(head, target);
  const mask = weights.vector('mask_hidden');
  const width = mask.length / facts.taps.length;
  const taps = facts.taps.map((_, tap) => mask.slice(tap * width, (tap + 1) * width));
  return scoreWithMasks(head, target, maskToken, fuse(taps));
}

/** Draft token d stands for the target's token d + d2t[d]. */
function spread(scores: Vector, weights: Float64Weights, { targetVocabulary }: Eagle3Facts): Vector {
  if (!weights.has('d2t')) return scores;
  const whole = new Float64Array(targetVocabulary).fill(-Infinity);
  weights.vector('d2t').forEach((offset, token) => (whole[token + offset] = scores[token]!));
  return whole;
}
