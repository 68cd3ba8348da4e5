/** What a search is given and what it gives. */
import type { Random } from '../../core/random.js';
import type { KeepRule } from '../../measure/kept-class.js';
import { leastSimilarity } from '../../measure/kept-class.js';
import type { Candidate } from './candidates.js';
import type { Projection } from './projection.js';
import type { TracePoint } from '../result.js';
import type { Heading, RankedTokens, TokenRanking } from './steepest-tokens.js';

/** What one pass says about a suffix. */
interface Score {
  readonly degradation: number;
  readonly divergence: number;
}

/** What the same pass says about decoding along the clean answer. */
export interface AnswerScore {
  /** Mean accepted length along the clean answer, drafted as a chain. */
  readonly length: number;
  /** Answer tokens that the target, held to the answer, still takes first, up to the first that it does not. */
  readonly followed: number;
  /** By how much other tokens lead, or nearly do, on average; 0 where the answer's own lead safely. */
  readonly leaving: number;
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
  /** What must stay of the free-running answer. */
  readonly keep: KeepRule;
}

/** Share of the answer that the target must follow from its beginning. */
const followedShare: Readonly<Record<KeepRule, number>> = {
  identical: 1,
  similar: leastSimilarity,
  task: 0,
  distribution: 0,
};

type Judged = Pick<Scored, 'divergence' | 'followed' | 'leaving'>;

export function isInside(scored: Judged, bounds: KeepBounds, answerLength: number): boolean {
  return violationOf(scored, bounds, answerLength) === 0;
}

/** 0 inside the bounds; outside, how far: in bounds of divergence, and in logits by which other tokens lead. */
export function violationOf(
  { divergence, followed, leaving }: Judged,
  { epsilon, keep }: KeepBounds,
  answerLength: number,
): number {
  const isLeft = followed / answerLength < followedShare[keep];
  return Math.max(0, divergence / epsilon - 1) + (isLeft ? leaving : 0);
}

export interface SearchSettings extends KeepBounds {
  readonly steps: number;
  readonly candidates: number;
  readonly topTokens: number;
  /** Most tokens that one candidate changes at the beginning. */
  readonly moves: number;
  /** Most edits that are merged into one suffix in a step; 1 for none. */
  readonly merges: number;
  readonly projection: Projection;
  /** Suffixes that are handed on to be decoded. */
  readonly finalists: number;
  /** Steps without gain after which the search goes on from the best suffix that it has not yet gone on from. */
  readonly patience: number;
  /** What is driven up: the drafter's disagreement, with or without gradient, nothing but the preservation of the answer, or chance. */
  readonly drive: Drive;
}

export type Drive = 'degradation' | 'unguided' | 'preservation' | 'undirected';

/** What a search asks of its prompt, or of several at once. */
export interface SuffixScorer {
  /** Answer tokens that a suffix should make the target follow. */
  readonly answerLength: number;
  /** Scores of candidates that equal `base` before their first edit. */
  score(base: readonly number[], candidates: readonly Candidate[]): Promise<Scored[]>;
  /** The tokens of largest gain at each position of a suffix that heads somewhere. */
  rankTokens(suffixIds: readonly number[], heading: Heading, ranking: TokenRanking): Promise<RankedTokens>;
  differentiate(suffixIds: readonly number[]): Promise<SuffixGradients>;
  /** The preservation gradient of every answer position. */
  differentiatePositions(suffixIds: readonly number[]): Promise<readonly Float32Array[]>;
  /** Which suffixes survive decoding and encoding in place. */
  keepRoundTrips(suffixes: readonly (readonly number[])[]): Promise<readonly boolean[]>;
}

export interface SearchProblem {
  readonly scorer: SuffixScorer;
  readonly allowed: Int32Array;
  /** Suffixes to begin with; the search starts from the best. */
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
  readonly leastDivergence: number;
  readonly interrupted: boolean;
}
