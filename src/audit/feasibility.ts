/**
 * Whether the same answer can be expected under a suffix, from one pass along the clean answer: the target's
 * distribution has moved by at most epsilon, and the target still takes the answer's own tokens first. A greedy target
 * that takes all of them gives the very answer; where it first takes another one, the answer may go elsewhere from
 * there on. Only decoding tells, and the few suffixes that are chosen are decoded.
 */
import { leastSimilarity, type KeepRule } from '../measure/kept-class.js';
import type { Scored } from './suffix-score.js';

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
