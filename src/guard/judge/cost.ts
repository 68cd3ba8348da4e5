/**
 * Question 1: does drafting pay for this request? The break-even point is the cost of a drafted step in plain tokens. A
 * request is collapsed when even the upper confidence bound of its accepted length is below that. No baseline is needed.
 */
import { type Speculation, meanAcceptedLength } from '../observation.js';
import type { BreakEvenSource } from './verdict.js';

export interface Cost {
  readonly acceptedLength: number;
  readonly steps: number;
  readonly upperBound: number;
  readonly breakEven: number;
  readonly breakEvenFrom: BreakEvenSource;
  readonly isCollapsed: boolean;
  /** Enough steps that a total collapse would be recognized. */
  readonly isConclusive: boolean;
}

/** Default cost of a drafted step: a plain one, the drafter, and a little for each draft token that is verified. */
const drafterCost = 0.1;
const draftTokenCost = 0.03;
/** Verifying more tokens than this in one pass costs little more: it is bound by reading the weights. */
const maxCostlyTokens = 8;
/** Where the engine does not report how much it drafts. */
const defaultDraftLength = 4;

/** One-sided standard normal quantiles. */
export const confidence = { request: 1.645, tenant: 3.09 } as const; // 95 % and 99.9 %

/**
 * @param configured the cost of a step that drafts in plain tokens, as the operator set it
 * @param timed the same, from the engine's timings
 */
export function weighCost(speculation: Speculation, configured?: number, timed?: number): Cost {
  const { steps, accepted } = speculation;
  const breakEven = findBreakEven(speculation, configured ?? timed);
  const upperBound = boundLength(accepted, steps, confidence.request);
  return {
    acceptedLength: meanAcceptedLength(speculation),
    steps,
    upperBound,
    breakEven,
    breakEvenFrom: configured !== undefined ? 'config' : timed !== undefined ? 'timings' : 'default',
    isCollapsed: upperBound < breakEven,
    isConclusive: boundLength(0, steps, confidence.request) < breakEven,
  };
}

/** Tokens per step from which drafting pays; 1 where nothing was drafted, because then nothing was spent. */
export function findBreakEven(speculation: Speculation, draftedStep?: number): number {
  const { steps, proposed, perStepProposed, draftLength, isTree } = speculation;
  if (proposed === 0 || steps === 0) return 1;
  const perStep =
    proposed === null || isTree
      ? (draftLength ?? defaultDraftLength)
      : Math.min(proposed / steps, maxCostlyTokens);
  const draftedShare =
    perStepProposed === null
      ? Math.min(1, perStep)
      : perStepProposed.filter((tokens) => tokens > 0).length / perStepProposed.length;
  if (draftedStep !== undefined) return 1 + (draftedStep - 1) * draftedShare;
  return 1 + drafterCost * draftedShare + draftTokenCost * Math.min(perStep, maxCostlyTokens);
}

/**
 * Upper confidence bound of the mean accepted length, with accepted draft tokens as Poisson events (the Wilson-Hilferty
 * approximation of the exact bound). It is 1 + 3.0 / steps where nothing was accepted, at 95 %.
 */
export function boundLength(accepted: number, steps: number, deviations: number): number {
  if (steps === 0) return Infinity;
  const events = accepted + 1;
  return 1 + (events * (1 - 1 / (9 * events) + deviations / (3 * Math.sqrt(events))) ** 3) / steps;
}
