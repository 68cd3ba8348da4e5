/**
 * Candidates that are scored together. Those that first differ from their base at about the same position share what
 * stands before it. A processor takes every such group as it is; a device takes full passes of few sizes, because it
 * needs many rows to be busy, and what was laid out for the lengths of one pass serves the next of the same lengths.
 */
import type { Candidate } from './candidates.js';

/** Candidates of one group: fewer share more of the base, many share the cost of a pass. */
export interface GroupSize {
  readonly fewest: number;
  /** Of those that share everything. */
  readonly most: number;
}

export const processorGroups: GroupSize = { fewest: 8, most: Infinity };

/** Groups of candidates whose first edits lie close together, so that little before them is read again. */
export function groupByBeginning(
  candidates: readonly Candidate[],
  { fewest, most }: GroupSize,
): Candidate[][] {
  const sorted = [...candidates].sort((left, right) => left.first - right.first);
  const groups: Candidate[][] = [];
  for (const candidate of sorted) {
    const last = groups.at(-1);
    const isSmall = last !== undefined && last.length < fewest;
    const isAlike = last?.[0]!.first === candidate.first && last.length < most;
    if (isSmall || isAlike) last.push(candidate);
    else groups.push([candidate]);
  }
  return groups;
}

const step = 8;

/** Sequences that a device's pass has for so many candidates; nobody looks at those that are too many. */
export function roundCopies(count: number): number {
  return count < step ? count : Math.ceil(count / step) * step;
}
