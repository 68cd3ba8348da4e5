/** One layer of a Llama-like decoder over a whole sequence, as the papers write it: causal, without any cache. */
import type { Float64Weights, Vector } from './float64-tensors.js';
import { addVectors, logSoftmax, scaleVector, silu } from './float64-tensors.js';

export interface RotaryFacts {
  readonly base: number;
  readonly scaling?:
    | { readonly kind: 'linear'; readonly factor: number }
    | {
        readonly kind: 'llama3';
        readonly factor: number;
        readonly low: number;
        readonly high: number;
        readonly original: number;
      };
}

export interface LayerFacts {
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headSize: number;
  readonly normEpsilon: number;
  readonly rotary: RotaryFacts;
  /** Positions that a token sees, itself included; all where absent. */
  readonly window?: number;
  readonly experts?: ExpertFacts;
}

export interface ExpertFacts {
  /** By layer's name: which layers have experts. */
  readonly isSparse: (name: string) => boolean;
  readonly perToken: number;
  readonly normalized: boolean;
}

/** The frequency of a pair, scaled as Llama 3.1 or position interpolation does. */
export function frequencyOf(pair: number, headSize: number, { base, scaling }: RotaryFacts): number {
  const frequency = 1 / base ** ((2 * pair) / headSize);
  if (scaling === undefined) return frequency;
  if (scaling.kind === 'linear') return frequency / scaling.factor;
  const wavelength = (2 * Math.PI) / frequency;
  const { factor, low, high, original } = scaling;
  if (wavelength < original / high) return frequency;
  if (wavelength > original / low) return frequency / factor;
  const smooth = (original / wavelength - low) / (high - low);
  return ((1 - smooth) * frequency) / factor + smooth * frequency;
}

/** Turns the pairs (i, i + half) of one head by their angles. */
export function rotate(head: Vector, angles: Vector): Vector {
  const half = head.length / 2;
  const turned = new Float64Array(head.length);
  for (let pair = 0; pair < half; pair++) {
    const angle = angles[pair]!;
    const [first, second] = [head[pair]!, head[pair + half]!];
    turned[pair] = first * Math.cos(angle) - second * Math.sin(angle);
    turned[pair + half] = second * Math.cos(angle) + first * Math.sin(angle);
  }
  return turned;
}

/** Grouped-query attention of the positions from `from` on, each over itself and all before it. */
export function attend(
  weights: Float64Weights,
  name: string,
  inputs: readonly Vector[], // [position]
  facts: LayerFacts,
  from = 0,
): Vector[] {
  const { heads, keyValueHeads, headSize, normEpsilon, rotary, window = Infinity } = facts;
  const angles = inputs.map((_, position) =>
    Float64Array.from({ length: headSize / 2 }, (_, pair) => position * frequencyOf(pair, headSize, rotary)),
  );
  /** [position][head] */
  const headsOf = (projection: string, count: number, norm?: string): Vector[][] =>
    inputs.map((input, position) => {
      const all = weights.linear(`${name}.${projection}`, input);
      return Array.from({ length: count }, (_, head) => {
        const one = all.slice(head * headSize, (head + 1) * headSize);
        if (norm === undefined) return one;
        const isNormed = weights.has(`${name}.${norm}.weight`);
        return rotate(isNormed ? weights.norm(`${name}.${norm}`, one, normEpsilon) : one, angles[position]!);
      });
    });
  const queries = headsOf('q_proj', heads, 'q_norm');
  const keys = headsOf('k_proj', keyValueHeads, 'k_norm');
  const values = headsOf('v_proj', keyValueHeads);
  return inputs.slice(from).map((_, offset) => {
    const position = from + offset;
    const mixed = new Float64Array(heads * headSize);
    const first = Math.max(0, position - window + 1);
    for (let head = 0; head < heads; head++) {
      const group = Math.floor(head / (heads / keyValueHeads));
      const scores = new Float64Array(position - first + 1);
      for (let seen = first; seen <= position; seen++) {
        let dot = 0;
        for (let at = 0; at < headSize; at++)
          dot += queries[position]![head]![at]! * keys[seen]![group]![at]!;
        scores[seen - first] = dot / Math.sqrt(headSize);
      }
      logSoftmax(scores).forEach((share, place) => {
        const value = values[first + place]![group]!;
        for (let at = 0; at < headSize; at++) mixed[head * headSize + at]! += Math.exp(share) * value[at]!;
      });
    }
    return weights.linear(`${name}.o_proj`, mixed);
  });
}

/** SwiGLU */
export function feedForward(weights: Float64Weights, name: string, x: Vector): Vector {
  const gate = silu(weights.linear(`${name}.gate_proj`, x));
  const up = weights.linear(`${name}.up_proj`, x);
  return weights.linear(
    `${name}.down_proj`,
    gate.map((value, index) => value * up[index]!),
  );
}

/** Softmax over all experts, the best few of them, each weighed by its share. */
export function mixExperts(
  weights: Float64Weights,
  name: string,
  x: Vector,
  { perToken, normalized }: ExpertFacts,
): Vector {
  const shares = logSoftmax(weights.linear(`${name}.gate`, x)).map(Math.exp);
  const best = [...shares.keys()].sort((a, b) => shares[b]! - shares[a]!).slice(0, perToken);
  const total = normalized ? best.reduce((sum, expert) => sum + shares[expert]!, 0) : 1;
  return best
    .map((expert) =>
      scaleVector(feedForward(weights, `${name}.experts.${expert}`, x), shares[expert]! / total),
    )
    .reduce(addVectors);
}

/** The MLP with its norm and residual, which every layer here ends with. */
export function finishLayer(
  weights: Float64Weights,
  name: string,
  middle: Vector,
  { normEpsilon, experts }: LayerFacts,
): Vector {
  const normed = weights.norm(`${name}.post_attention_layernorm`, middle, normEpsilon);
  if (experts?.isSparse(name) === true)
    return addVectors(middle, mixExperts(weights, `${name}.mlp`, normed, experts));
  return addVectors(middle, feedForward(weights, `${name}.mlp`, normed));
}

/** The positions from `from` on; without its input norm where the file has none, as in EAGLE's only layer. */
export function runLayer(
  weights: Float64Weights,
  name: string,
  inputs: readonly Vector[], // [position]
  facts: LayerFacts,
  from = 0,
): Vector[] {
  const hasNorm = weights.has(`${name}.input_layernorm.weight`);
  const normed = hasNorm
    ? inputs.map((input) => weights.norm(`${name}.input_layernorm`, input, facts.normEpsilon))
    : inputs;
  const attention = attend(weights, `${name}.self_attn`, normed, facts, from);
  return attention.map((attended, offset) =>
    finishLayer(weights, name, addVectors(inputs[from + offset]!, attended), facts),
  );
}
