/** Verification steps and accepted draft tokens of one or more answers: all that a mean accepted length needs. */
export interface StepCounts {
  /** Verification passes of the target. Expected values may be fractions. */
  readonly steps: number;
  readonly accepted: number;
}

/** 1 + accepted / steps; without steps 1, as in plain decoding. */
export function acceptedLengthOf({ steps, accepted }: StepCounts): number {
  return steps === 0 ? 1 : 1 + accepted / steps;
}

/** Sums over all answers: a long answer weighs more than a short one. */
export function poolCounts(counts: readonly StepCounts[]): StepCounts {
  return {
    accepted: counts.reduce((total, count) => total + count.accepted, 0),
    steps: counts.reduce((total, count) => total + count.steps, 0),
  };
}
