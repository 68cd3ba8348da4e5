/**
 * The reference of DFlash and DSpark (arXiv 2607.05147), written from their descriptions. Every node is computed anew:
 * the keys and values of all verified positions from the target's residual streams, then the block behind them.
 */
import type { WritableTensors } from '../support/checkpoint/encode-values.js';
import type { Scorer, Situation } from './float64-drafters.js';
import type { LayerFacts } from './float64-layer.js';
import { finishLayer, frequencyOf, rotate } from './float64-layer.js';
import type { Float64Model } from './float64-model.js';
import type { Vector } from './float64-tensors.js';
import { addVectors, Float64Weights, joinVectors, logSoftmax } from './float64-tensors.js';

export interface BlockFacts extends LayerFacts {
  readonly layers: number;
  /** Layers of the target before which its residual stream is read. */
  readonly taps: readonly number[];
  readonly slots: number;
  readonly maskToken: number;
  /** Every slot predicts the token behind its own position; otherwise the one at it, and the first slot none. */
  readonly isShifted: boolean;
  /** [layer] A slot sees no later one. */
  readonly isCausal: readonly boolean[];
  /** Nothing is drafted where the confidence head predicts less. */
  readonly threshold?: number;
  /** Wrong in some tests: the fused state without its norm, or with the layer's input norm. */
  readonly contextNorm: 'hidden_norm' | 'none' | 'both';
  readonly targetVocabulary: number;
  /** Of the Markov head; default vanilla. */
  readonly markov?: 'vanilla' | 'gated' | 'rnn';
  /** Wrong in some tests: the rnn forgets, skips a first slot that predicts nothing, or reads in another order. */
  readonly markovFault?: 'no state' | 'first slot skipped' | 'swapped parts' | 'state last';
}

interface KeyValues {
  readonly keys: readonly Vector[]; // [head]
  readonly values: readonly Vector[]; // [head]
}

interface BlockReference {
  readonly score: Scorer;
  /** Predicted probability that the token behind a path is accepted. */
  readonly confidence: (situation: Situation, path: readonly number[]) => number;
}

export const scoreWithBlocks = (tensors: WritableTensors, target: Float64Model, facts: BlockFacts): Scorer =>
  createBlockReference(tensors, target, facts).score;

export function createBlockReference(
  tensors: WritableTensors,
  target: Float64Model,
  facts: BlockFacts,
): BlockReference {
  const weights = new Float64Weights(tensors);
  const { heads, keyValueHeads, headSize, normEpsilon, rotary, slots } = facts;
  const embed = (token: number): Vector =>
    weights.has('embed_tokens.weight') ? weights.row('embed_tokens.weight', token) : target.embed(token);
  const mask = weights.has('mask_embedding') ? weights.vector('mask_embedding') : embed(facts.maskToken);
  const split = (x: Vector, count: number): Vector[] =>
    Array.from({ length: count }, (_, head) => x.slice(head * headSize, (head + 1) * headSize));
  const turn = (name: string, head: Vector, position: number): Vector => {
    const angles = Float64Array.from(
      { length: headSize / 2 },
      (_, pair) => position * frequencyOf(pair, headSize, rotary),
    );
    return rotate(weights.norm(name, head, normEpsilon), angles);
  };
  const keyValuesOf = (layer: string, x: Vector, position: number): KeyValues => ({
    keys: split(weights.linear(`${layer}.self_attn.k_proj`, x), keyValueHeads).map((head) =>
      turn(`${layer}.self_attn.k_norm`, head, position),
    ),
    values: split(weights.linear(`${layer}.self_attn.v_proj`, x), keyValueHeads),
  });
  const contextOf = ({ pass, root }: Situation): Vector[] =>
    Array.from({ length: root }, (_, position) => {
      const fused = weights.linear(
        'fc',
        joinVectors(...facts.taps.map((tap) => pass.streams[tap]![position]!)),
      );
      return facts.contextNorm === 'none' ? fused : weights.norm('hidden_norm', fused, normEpsilon);
    });
  const attend = (layer: string, x: Vector, position: number, seen: readonly KeyValues[]): Vector => {
    const queries = split(weights.linear(`${layer}.self_attn.q_proj`, x), heads).map((head) =>
      turn(`${layer}.self_attn.q_norm`, head, position),
    );
    const mixed = queries.map((query, head) => {
      const group = Math.floor((head * keyValueHeads) / heads);
      const scores = seen.map(
        ({ keys }) =>
          keys[group]!.reduce((sum, value, at) => sum + value * query[at]!, 0) / Math.sqrt(headSize),
      );
      const shares = logSoftmax(Float64Array.from(scores)).map(Math.exp);
      return Float64Array.from({ length: headSize }, (_, at) =>
        seen.reduce((sum, { values }, place) => sum + shares[place]! * values[group]![at]!, 0),
      );
    });
    return weights.linear(`${layer}.self_attn.o_proj`, joinVectors(...mixed));
  };
  /** [slot] */
  const runBlock = (situation: Situation): Vector[] => {
    const { pass, root } = situation;
    const context = contextOf(situation);
    let block = Array.from({ length: slots }, (_, slot) => (slot === 0 ? embed(pass.tokens[root]!) : mask));
    for (let index = 0; index < facts.layers; index++) {
      const layer = `layers.${index}`;
      const norm = (x: Vector): Vector => weights.norm(`${layer}.input_layernorm`, x, normEpsilon);
      const before = context.map((x, position) =>
        keyValuesOf(layer, facts.contextNorm === 'both' ? norm(x) : x, position),
      );
      const normed = block.map(norm);
      const own = normed.map((x, slot) => keyValuesOf(layer, x, root + slot));
      block = block.map((x, slot) => {
        const seen = [...before, ...(facts.isCausal[index] === true ? own.slice(0, slot + 1) : own)];
        return finishLayer(
          weights,
          layer,
          addVectors(x, attend(layer, normed[slot]!, root + slot, seen)),
          facts,
        );
      });
    }
    return block.map((x) => weights.norm('norm', x, normEpsilon));
  };
  const firstSlot = facts.isShifted ? 0 : 1;
  const levelsOf = (situation: Situation): Vector[] => runBlock(situation).slice(firstSlot);
  // Behind a cut there is no token.
  const tokensBefore = ({ pass, root }: Situation, path: readonly (number | undefined)[]): number[] =>
    [undefined, ...path].map((token) => token ?? pass.tokens[root]!);
  const confidence = (situation: Situation, path: readonly number[]): number => {
    const previous = tokensBefore(situation, path).at(-1)!;
    const row = weights.row('markov_head.markov_w1.weight', previous);
    const hidden = levelsOf(situation)[path.length]!;
    return sigmoid(weights.linear('confidence_head.proj', joinVectors(hidden, row))[0]!);
  };
  const score: Scorer = (situation, path) => {
    const block = runBlock(situation);
    const hidden = block[firstSlot + path.length]!;
    const logits = weights.has('lm_head.weight') ? weights.linear('lm_head', hidden) : target.project(hidden);
    const scored = weights.has('markov_head.markov_w1.weight')
      ? addVectors(logits, scoreByMarkov(weights, block, tokensBefore(situation, path), facts))
      : logits;
    const { threshold } = facts;
    if (threshold !== undefined && confidence(situation, path) < threshold)
      return new Float64Array(facts.targetVocabulary).fill(-Infinity);
    return spread(logSoftmax(scored), weights, facts);
  };
  return { score, confidence };
}

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

/** `block`: [slot] hidden states; `before`: [level] the token before each level. */
function scoreByMarkov(
  weights: Float64Weights,
  block: readonly Vector[],
  before: readonly number[],
  { markov = 'vanilla', markovFault, isShifted }: BlockFacts,
): Vector {
  const levels = isShifted ? block : block.slice(1);
  const rows = before.map((token) => weights.row('markov_head.markov_w1.weight', token));
  const last = rows.length - 1;
  const row = rows[last]!;
  if (markov === 'vanilla') return weights.linear('markov_head.markov_w2', row);
  if (markov === 'gated') {
    const gate = weights.linear('markov_head.gate_proj', joinVectors(levels[last]!, row)).map(sigmoid);
    return weights.linear(
      'markov_head.markov_w2',
      row.map((value, at) => value * gate[at]!),
    );
  }
  const rank = row.length;
  let state: Vector = new Float64Array(rank);
  let output: Vector = state;
  // A first slot that predicts nothing is read all the same, behind the anchor like the next one.
  const skipsFirst = isShifted || markovFault === 'first slot skipped';
  const [slots, previous] = skipsFirst ? [levels, rows] : [block, [rows[0]!, ...rows]];
  for (const [slot, own] of previous.entries()) {
    if (markovFault === 'no state') state = new Float64Array(rank);
    const read =
      markovFault === 'state last'
        ? joinVectors(own, slots[slot]!, state)
        : joinVectors(state, own, slots[slot]!);
    const joint = weights.linear('markov_head.joint_proj', read);
    const part = (place: number): Vector => joint.slice(place * rank, (place + 1) * rank);
    const [gate, candidate] = markovFault === 'swapped parts' ? [part(1), part(0)] : [part(0), part(1)];
    state = state.map((value, at) => {
      const open = sigmoid(gate[at]!);
      return open * value + (1 - open) * Math.tanh(candidate[at]!);
    });
    output = part(2).map(Math.tanh);
  }
  return weights.linear('markov_head.markov_w2', output);
}

/** Draft token d stands for the target's token d + d2t[d]. */
function spread(scores: Vector, weights: Float64Weights, { targetVocabulary }: BlockFacts): Vector {
  if (!weights.has('d2t')) return scores;
  const whole = new Float64Array(targetVocabulary).fill(-Infinity);
  weights.vector('d2t').forEach((offset, token) => (whole[token + offset] = scores[token]!));
  return whole;
}
