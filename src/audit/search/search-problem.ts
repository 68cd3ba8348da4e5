import type { Random } from '../../core/random.js';
import { type KeepRule, minSimilarity } from '../../measure/kept-class.js';
import type { Candidate, RankedTokens, SearchDirection, TokenRanking } from './candidates.js';
import type { Projection } from './projection.js';
import type { TracePoint } from '../result.js';

/** Decoding along the clean answer, from the same pass. */
export interface AnswerScore {
  readonly length: number;
  /** Answer tokens before the first that is not the target's most likely. */
  readonly followed: number;
  /** Mean lead of other tokens; 0 if the answer's tokens lead safely. */
  readonly answerMarginLoss: number;
}

export interface Scored extends AnswerScore {
  readonly degradation: number;
  readonly divergence: number;
  readonly suffixIds: readonly number[];
  readonly first: number;
}

/**
 * Whether a suffix probably keeps the answer: the target's distribution moved by at most epsilon, and it still
 * prefers the answer's tokens. A greedy target that prefers all of them gives the same answer; otherwise only
 * decoding can tell, so finalists are decoded.
 */
export interface KeepBounds {
  /** The veto: max mean divergence in nats. */
  readonly epsilon: number;
  readonly keep: KeepRule;
}

/** Required share of followed answer tokens. */
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

/** 0 within the bounds, else relative excess of divergence plus answer margin loss. */
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
  /** Max changed tokens in early steps. */
  readonly moves: number;
  /** Max merged edits per step; 1 for none. */
  readonly merges: number;
  readonly projection: Projection;
  readonly finalists: number;
  /** Steps without gain before the search continues from another suffix. */
  readonly patience: number;
  readonly searchMode: SearchMode;
}

/**
 * What proposes changes and what a search keeps.
 * degradation: gradients; what raises the objective
 * preservation: gradients; what lowers the divergence
 * unguided: random changes; what raises the objective
 * blind: random changes; random ones
 */
export type SearchMode = 'degradation' | 'preservation' | 'unguided' | 'blind';

export interface SuffixScorer {
  readonly answerLength: number;
  /** Candidates equal `base` before their first edit. */
  score(base: readonly number[], candidates: readonly Candidate[]): Promise<Scored[]>;
  rankTokens(
    suffixIds: readonly number[],
    towards: SearchDirection,
    ranking: TokenRanking,
  ): Promise<RankedTokens>;
  keepRoundTrips(suffixes: readonly (readonly number[])[]): Promise<readonly boolean[]>;
}

/** What a search spends. */
export interface SearchEffort {
  readonly scoredCandidates: number;
  readonly decodedSuffixes: number;
}

export interface SearchProblem {
  readonly scorer: SuffixScorer;
  readonly allowed: Int32Array;
  /** The search starts from the best. */
  readonly starts: readonly (readonly number[])[];
  readonly random: Random;
  /** Of the search that this one is a control of: it scores exactly as many candidates, in as many steps. */
  readonly match?: SearchEffort | undefined;
  readonly onStep?: ((point: TracePoint) => void) | undefined;
  /** Once aborted, the next step throws its reason. */
  readonly signal?: AbortSignal | undefined;
}

export interface SearchOutcome {
  /** Within the bounds, shortest accepted length first. */
  readonly finalists: readonly Scored[];
  readonly trace: readonly TracePoint[];
  readonly scoredCandidates: number;
  readonly minDivergence: number;
}
