/**
 * Candidate suffixes from a search direction (GCG, arXiv 2307.15043): the tokens with the largest first-order gain.
 * Candidates change one token, two, or several early in a search: a pair can succeed where either change alone would
 * be vetoed.
 */
import type { Random } from '../../core/random.js';
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
import { input, type Tensor } from '../../graph/tensor.js';
import { sum } from '../../graph/operations/reductions.js';
import { reshape } from '../../graph/operations/shaping.js';
import type { MixedValues, NamedTensors, NamedValues } from '../../runtime/program.js';
import { float32, floatsOf, integersOf } from '../../runtime/program.js';
import { cosine, least, type Projection } from './projection.js';

/** `first`: the earliest changed position. */
export interface Candidate {
  readonly suffixIds: readonly number[];
  readonly first: number;
}

export interface ProposalSettings {
  readonly candidates: number;
  /** Candidate i changes `changes[i % changes.length]` tokens. */
  readonly changes: readonly number[];
}

interface Edit {
  readonly position: number;
  readonly token: number;
}

export function proposeCandidates(
  base: readonly number[],
  promising: readonly (readonly number[])[], // [position] tokens of largest gain
  { candidates, changes }: ProposalSettings,
  random: Random,
): Candidate[] {
  const positions = base.map((_, position) => position);
  return Array.from({ length: candidates }, (_, index) => {
    random.shuffle(positions);
    const chosen = positions.slice(0, changes[index % changes.length]);
    return applyEdits(
      base,
      chosen.map((position) => {
        const tokens = promising[position]!;
        return { position, token: tokens[random.nextInteger(tokens.length)]! };
      }),
    );
  });
}

/**
 * A quarter of the candidates change one token, a quarter two, the rest up to `most`, which falls to one towards the
 * end.
 */
export function planChanges(step: number, steps: number, most: number): readonly number[] {
  const large = Math.max(1, Math.round(most * (1 - step / steps) ** 2));
  return [1, large, Math.min(2, most), Math.ceil(large / 2)];
}

function applyEdits(base: readonly number[], edits: readonly Edit[]): Candidate {
  const suffixIds = [...base];
  for (const { position, token } of edits) suffixIds[position] = token;
  return { suffixIds, first: Math.min(...edits.map(({ position }) => position)) };
}

/** Joins the best changes at distinct positions (I-GCG): best, best + second, ... */
export function mergeEdits(
  base: readonly number[],
  candidates: readonly Candidate[],
  most: number,
): Candidate[] {
  const merged: Candidate[] = [];
  const taken = new Map<number, number>(); // position -> token
  let joined = 0;
  for (const { suffixIds } of candidates) {
    if (joined === most) break;
    const edits = [...suffixIds.entries()].filter(([position, token]) => token !== base[position]);
    if (edits.some(([position]) => taken.has(position))) continue;
    for (const [position, token] of edits) taken.set(position, token);
    joined += 1;
    const all = [...taken].map(([position, token]) => ({ position, token }));
    if (joined > 1) merged.push(applyEdits(base, all));
  }
  return merged;
}

export function randomSuffix(allowed: Int32Array, length: number, random: Random): number[] {
  return Array.from({ length }, () => allowed[random.nextInteger(allowed.length)]!);
}

export const keyOf = (suffixIds: readonly number[]): string => suffixIds.join(' ');

// The tokens with the largest first-order gain per position, ranked on the device: of two matrices [suffix,
// vocabulary] only ranks come back. With g the gradient to follow and h the one to preserve, the direction is
// keep * g - (weight * <g,h> / <h,h> + turn) * h
// A penalty excludes forbidden tokens and the suffix's own.
/** Raise the degradation with the preservation projected out; lower the divergence; or lower the answer margin loss. */
export type SearchDirection =
  | { readonly kind: 'degrade'; readonly projection: Projection }
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
  const isProjected = degrades && towards.projection.kind === 'direction';
  return {
    barred: float32(barred, [vocabularySize]),
    keep: scalar(degrades ? 1 : 0),
    weight: scalar(isProjected ? towards.projection.weight : 0),
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

export interface SuffixGradients {
  readonly degradationGradient: Float32Array; // [suffix, vocabulary]
  readonly divergenceGradient: Float32Array; // [suffix, vocabulary]
}

/** On the host, with the cosines of the direction. */
export function rankAlong(
  base: readonly number[],
  direction: Float32Array,
  { degradationGradient, divergenceGradient }: SuffixGradients,
  ranking: TokenRanking,
): RankedTokens {
  return {
    promising: rankTokens(base, direction, ranking),
    before: cosine(degradationGradient, divergenceGradient),
    after: cosine(direction, divergenceGradient),
  };
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
