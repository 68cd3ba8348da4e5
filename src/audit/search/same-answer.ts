/**
 * Accepted length along a given answer, from the acceptance of every draft token at every position. A step with answer
 * token i as its root drafts the tokens i + 1, i + 2, ...; it accepts them up to the first that fails, the target adds
 * the next one, and that is the root of the next step. With probabilities in place of yes and no the same walk gives
 * expectations: `reached[i]` is the probability that a step has token i as its root.
 */

/** [level] -> [row]: probability that the draft token of the level is accepted, from answer token `row` as root. */
export type AcceptanceTable = readonly Float32Array[];

/** What steps came to; expected values may be fractions. */
export interface StepCounts {
  /** Passes of the target over the answer behind its first token. */
  readonly steps: number;
  readonly accepted: number;
}

export function walkAnswer(table: AcceptanceTable, answerLength: number): StepCounts {
  const reached = new Float64Array(Math.max(answerLength, 1));
  reached[0] = 1;
  let steps = 0;
  let accepted = 0;
  for (let root = 0; root < answerLength - 1; root++) {
    const share = reached[root]!;
    if (share === 0) continue;
    steps += share;
    let survival = share;
    for (let level = 0; survival > 0; level++) {
      const next = root + 1 + level;
      const isOpen = level < table.length && next < answerLength;
      const kept = isOpen ? survival * table[level]![root]! : 0;
      if (next < answerLength) reached[next]! += survival - kept;
      accepted += kept;
      survival = kept;
    }
  }
  return { steps, accepted };
}

export function acceptedLengthOf({ steps, accepted }: StepCounts): number {
  return steps === 0 ? 1 : 1 + accepted / steps;
}

/** One sum over the steps of all the given ones: a long answer weighs more than a short one. */
export function poolCounts(counts: readonly StepCounts[]): StepCounts {
  return {
    accepted: counts.reduce((total, count) => total + count.accepted, 0),
    steps: counts.reduce((total, count) => total + count.steps, 0),
  };
}
