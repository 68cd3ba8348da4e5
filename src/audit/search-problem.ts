/** What a search is given and what it gives. */
import type { Random } from '../core/random.js';
import type { Candidate } from './candidates.js';
import type { KeepBounds } from './feasibility.js';
import type { Projection } from './projection.js';
import type { TracePoint } from './search-trace.js';
import type { Heading, RankedTokens, TokenRanking } from './steepest-tokens.js';
import type { Scored, SuffixGradients } from './suffix-score.js';

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
