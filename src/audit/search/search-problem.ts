/** Inputs and outcome of a search. */
import type { Random } from '../../core/random.js';
import type { KeepRule } from '../../measure/kept-class.js';
import { minSimilarity } from '../../measure/kept-class.js';
import type { Candidate } from './candidates.js';
import type { Projection } from './projection.js';
import type { TracePoint } from '../result.js';
import type { SearchDirection, RankedTokens, TokenRanking } from './steepest-tokens.js';

/** Losses of a suffix, from one pass. */
interface Score {
  readonly degradation: number;
  readonly divergence: number;
}

/** What the same pass shows about decoding along the clean answer. */
export interface AnswerScore {
  /** Mean accepted length along the clean answer, drafted as a chain. */
  readonly length: number;
  /** Answer tokens up to the first that is not the target's most likely token. */
  readonly followed: number;
  /** Mean logit margin by which other tokens lead, or nearly lead; 0 if the answer's tokens lead safely. */
  readonly answerMarginLoss: number;
}

export interface Scored extends Score, AnswerScore {
  readonly suffixIds: readonly number[];
  readonly first: number;
}

export interface SuffixGradients extends Score {
  readonly degradationGradient: Float32Array; // [suffix, vocabulary]
  readonly divergenceGradient: Float32Array; // [suffix, vocabulary]
}

/**
 * Whether the same answer can be expected under a suffix, from one pass along the clean answer: the target's
 * distribution has moved by at most epsilon, and the target still takes the answer's own tokens first. A greedy target
 * that takes all of them gives the very answer; where it first takes another one, the answer may go elsewhere from
 * there on. Only decoding tells, and the few suffixes that are chosen are decoded.
 */
export interface KeepBounds {
  /** The veto: mean divergence of the target's distribution, in nats, that a suffix may cause. */
  readonly epsilon: number;
  /** What the free-running answer must keep. */
  readonly keep: KeepRule;
}

/** Share of the answer that must be the target's most likely tokens, from the beginning. */
const followedShare: Readonly<Record<KeepRule, number>> = {
  identical: 1,
  similar: minSimilarity,
  task: 0,
  distribution: 0,
};

type Judged = Pick<Scored, 'divergence' | 'followed' | 'answerMarginLoss'>;

export function isInside(scored: Judged, bounds: KeepBounds, answerLength: number): boolean {
  return violationOf(scored, bounds, answerLength) === 0;
}

/** 0 inside the bounds; outside, the relative excess of divergence plus the answer margin loss. */
export function violationOf(
  { divergence, followed, answerMarginLoss }: Judged,
  { epsilon, keep }: KeepBounds,
  answerLength: number,
): number {
  const isLeft = followed / answerLength < followedShare[keep];
  return Math.max(0, divergence / epsilon - 1) + (isLeft ? answerMarginLoss : 0);
}

export interface SearchSettings extends KeepBounds {
  readonly steps: number;
  readonly candidates: number;
  readonly topTokens: number;
  /** Max tokens that a candidate changes in early steps. */
  readonly moves: number;
  /** Max edits merged into one suffix in a step; 1 for none. */
  readonly merges: number;
  readonly projection: Projection;
  /** Suffixes that are decoded at the end. */
  readonly finalists: number;
  /** Steps without gain after which the search continues from the best suffix that it has not expanded yet. */
  readonly patience: number;
  /** What the search maximizes: degradation, with gradients or without (`unguided`), preservation, or random numbers. */
  readonly searchMode: SearchMode;
}

export type SearchMode = 'degradation' | 'unguided' | 'preservation' | 'undirected';

/** Scores suffixes in one prompt, or in several at once. */
export interface SuffixScorer {
  /** Answer tokens that a suffix should make the target follow. */
  readonly answerLength: number;
  /** Scores of candidates that equal `base` before their first edit. */
  score(base: readonly number[], candidates: readonly Candidate[]): Promise<Scored[]>;
  /** The tokens with the largest gain at each position of a suffix, in a search direction. */
  rankTokens(
    suffixIds: readonly number[],
    towards: SearchDirection,
    ranking: TokenRanking,
  ): Promise<RankedTokens>;
  differentiate(suffixIds: readonly number[]): Promise<SuffixGradients>;
  /** The preservation gradient of every answer position. */
  differentiatePositions(suffixIds: readonly number[]): Promise<readonly Float32Array[]>;
  /** Which suffixes survive decoding and encoding in place. */
  keepRoundTrips(suffixes: readonly (readonly number[])[]): Promise<readonly boolean[]>;
}

export interface SearchProblem {
  readonly scorer: SuffixScorer;
  readonly allowed: Int32Array;
  /** Initial suffixes; the search starts from the best. */
  readonly starts: readonly (readonly number[])[];
  readonly random: Random;
  readonly onStep?: (point: TracePoint) => void;
  readonly signal?: AbortSignal;
}

export interface SearchOutcome {
  /** Suffixes inside the bounds, shortest accepted length first; empty if there was none. */
  readonly finalists: readonly Scored[];
  readonly trace: readonly TracePoint[];
  readonly scoredCandidates: number;
  /** The smallest divergence of any suffix that was scored. */
  readonly minDivergence: number;
  readonly interrupted: boolean;
}
