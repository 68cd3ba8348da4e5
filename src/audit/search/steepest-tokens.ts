/**
 * The tokens with the largest first-order gain per position, ranked on the device: of two matrices [suffix,
 * vocabulary] only ranks come back. With g the gradient to follow and h the one to preserve, the direction is
 * keep * g - (weight * <g,h> / <h,h> + turn) * h
 * A penalty excludes forbidden tokens and the suffix's own.
 */
import { topIndices as rankOnHost } from '../../core/vector.js';
import {
  add,
  divide,
  maximum,
  multiply,
  reciprocalSquareRoot,
  subtract,
} from '../../graph/operations/elementwise.js';
import { topIndices, topValues } from '../../graph/operations/indexing.js';
import { input } from '../../graph/operations/leaves.js';
import { sum } from '../../graph/operations/reductions.js';
import { reshape } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import type { MixedValues, NamedTensors, NamedValues } from '../../runtime/program.js';
import { float32, floatsOf, integersOf } from '../../runtime/program.js';
import { least } from './projection.js';

/**
 * Raise the degradation with lambda of the preservation gradient projected out; lower the divergence; or lower the
 * answer margin loss.
 */
export type SearchDirection =
  | { readonly kind: 'degrade'; readonly weight: number }
  | { readonly kind: 'restoreDistribution' }
  | { readonly kind: 'restoreAnswer' };

export interface RankedTokens {
  /** [position] Best first. */
  readonly promising: readonly (readonly number[])[];
  /** Cosine with the preservation gradient, before and after projection. */
  readonly before: number;
  readonly after: number;
}

export interface TokenRanking {
  readonly allowed: Int32Array;
  readonly count: number;
}

const penalty = 1e30;

/** up, stay [suffix, vocabulary] -> tokens and gains [suffix, count], before and after [1] */
export function buildRanking(suffixLength: number, vocabularySize: number, count: number): NamedTensors {
  const shape = [suffixLength, vocabularySize];
  const [up, stay, own] = ['up', 'stay', 'oneHot'].map((name) => input(name, shape)) as [
    Tensor,
    Tensor,
    Tensor,
  ];
  const [keep, weight, turn] = ['keep', 'weight', 'turn'].map((name) => input(name, [1, 1])) as [
    Tensor,
    Tensor,
    Tensor,
  ];
  const dot = (left: Tensor, right: Tensor): Tensor => reshape(sum(multiply(left, right), [0, 1]), [1, 1]);
  const stayed = maximum(dot(stay, stay), least);
  const cosine = (left: Tensor): Tensor =>
    reshape(
      multiply(
        dot(left, stay),
        multiply(reciprocalSquareRoot(maximum(dot(left, left), least)), reciprocalSquareRoot(stayed)),
      ),
      [1],
    );
  const share = add(multiply(weight, divide(dot(up, stay), stayed)), turn);
  const direction = subtract(multiply(keep, up), multiply(share, stay));
  const barred = add(input('barred', [vocabularySize]), multiply(own, -penalty));
  const gains = add(direction, barred);
  return {
    tokens: topIndices(gains, count),
    gains: topValues(gains, count),
    before: cosine(up),
    after: cosine(direction),
  };
}

export function rankingInputs(
  towards: SearchDirection,
  allowed: Int32Array,
  vocabularySize: number,
): NamedValues {
  const barred = new Float32Array(vocabularySize).fill(-penalty);
  for (const token of allowed) barred[token] = 0;
  const scalar = (value: number) => float32(Float32Array.of(value), [1, 1]);
  const degrades = towards.kind === 'degrade';
  return {
    barred: float32(barred, [vocabularySize]),
    keep: scalar(degrades ? 1 : 0),
    weight: scalar(degrades ? towards.weight : 0),
    turn: scalar(degrades ? 0 : 1),
  };
}

export function readRanking(outputs: MixedValues, suffixLength: number): RankedTokens {
  const tokens = integersOf(outputs, 'tokens');
  const gains = floatsOf(outputs, 'gains');
  const count = tokens.length / suffixLength;
  const promising = Array.from({ length: suffixLength }, (_, position) =>
    Array.from(tokens.subarray(position * count, (position + 1) * count)).filter(
      (_token, rank) => gains[position * count + rank]! > -penalty / 2,
    ),
  );
  return { promising, before: floatsOf(outputs, 'before')[0]!, after: floatsOf(outputs, 'after')[0]! };
}

/** On the host. */
export function rankTokens(
  base: readonly number[],
  direction: Float32Array, // [suffix, vocabulary] larger is better
  { allowed, count }: TokenRanking,
): number[][] {
  const vocabularySize = direction.length / base.length;
  return base.map((own, position) => {
    const row = direction.subarray(position * vocabularySize, (position + 1) * vocabularySize);
    const others = allowed.filter((token) => token !== own);
    const gains = Float32Array.from(others, (token) => row[token]!);
    return Array.from(rankOnHost(gains, Math.min(count, others.length)), (index) => others[index]!);
  });
}
