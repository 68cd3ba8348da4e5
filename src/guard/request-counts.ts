/**
 * What of a request's steps the tests look at: shares in [0, 1], one or two of them a step.
 *
 *   first   was a draft token accepted at all                     min(accepted, 1)
 *   three   how many of the first three draft tokens were         min(accepted, 3) / 3
 *   whole   accepted / draft length; where only totals are known
 *
 * The first draft token says nearly all there is to say about a collapse, and its share does not depend on the draft length;
 * the first three tell deep drafts from shallow ones. Capped, a share needs no draft length, holds for chains and
 * trees alike, and a lucky long step cannot hide a dozen failures. A step that proposed fewer tokens than the cap is
 * divided by what it proposed, which can only raise its share: first tokens are accepted most. A step that proposed
 * nothing wagered nothing and is not looked at.
 */
import type { Speculation } from './request-record.js';

const caps = [1, 3] as const;

export type CountKind = 'steps' | 'totals';

export interface RequestCounts {
  /** Whether single steps or a histogram are known, or totals alone. Shares of the two kinds are never compared. */
  readonly kind: CountKind;
  readonly steps: number;
  readonly accepted: number;
  /** [share] summed over steps. */
  readonly sums: readonly number[];
}

/** Adds a step's shares, `times` over, to their sums. */
export function addStep(sums: number[], accepted: number, proposed: number | null, times = 1): void {
  for (let share = 0; share < caps.length; share++) {
    const cap = caps[share]!;
    sums[share]! += (times * Math.min(accepted, cap)) / Math.min(cap, proposed ?? cap);
  }
}

/** A step as the tests read it; the draft length where an engine did not say what it proposed. */
export interface CountedStep {
  readonly accepted: number;
  readonly proposed: number | null;
}

/** The single steps, where the record has them. */
export function stepsOf({
  perStepAccepted,
  perStepProposed,
  draftLength,
}: Speculation): readonly CountedStep[] | undefined {
  return perStepAccepted?.map((accepted, step) => ({
    accepted,
    proposed: atLeast(perStepProposed?.[step] ?? draftLength, accepted),
  }));
}

/** Undefined where nothing can be said: no steps, or counts that contradict each other. */
export function countRequest(speculation: Speculation): RequestCounts | undefined {
  const { steps, accepted, histogram, draftLength } = speculation;
  const single = stepsOf(speculation);
  if (single !== undefined) return countSteps(single);
  if (!(steps > 0) || !(accepted >= 0) || !Number.isFinite(steps + accepted)) return undefined;
  if (histogram !== null && histogram.length > 0) {
    const deepest = atLeast(draftLength, histogram.length - 1);
    const counted = histogram.reduce((sum, count) => sum + count, 0);
    if (!(counted > 0) || deepest === 0) return undefined;
    const sums = caps.map(() => 0);
    for (const [depth, count] of histogram.entries()) addStep(sums, depth, deepest, count);
    const reached = histogram.reduce((sum, count, depth) => sum + count * depth, 0);
    return { kind: 'steps', steps: counted, accepted: reached, sums };
  }
  const length = draftLengthOf(speculation);
  return { kind: 'totals', steps, accepted, sums: [Math.min(accepted / length, steps)] };
}

export function countSteps(steps: readonly CountedStep[]): RequestCounts | undefined {
  const sums = caps.map(() => 0);
  let counted = 0;
  let accepted = 0;
  for (const step of steps) {
    if (step.proposed === 0) continue;
    counted += 1;
    accepted += step.accepted;
    addStep(sums, step.accepted, step.proposed);
  }
  return counted === 0 ? undefined : { kind: 'steps', steps: counted, accepted, sums };
}

/** Where nobody says how long drafts are: longer than most, so that a share is rather too low on both sides. */
const usualDraftLength = 8;

function draftLengthOf({ draftLength, proposed, steps, isTree, accepted }: Speculation): number {
  const told = draftLength ?? (proposed === null || isTree ? usualDraftLength : Math.ceil(proposed / steps));
  return Math.max(told, Math.ceil(accepted / steps), 1);
}

function atLeast(length: number | null | undefined, accepted: number): number | null {
  return length === null || length === undefined ? null : Math.max(length, accepted);
}
