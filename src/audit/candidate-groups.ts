/**
 * Candidates that are scored together. Those that first differ from their base at about the same position share what
 * stands before it. A processor takes every such group as it is; a device takes full passes of few sizes, because it
 * needs many rows to be busy, and what was laid out for the lengths of one pass serves the next of the same lengths.
 */
import type { Candidate } from './candidates.js';

/** Sequences of a device's pass are so many times a number. */
const step = 8;

/** Candidates of one group: fewer share more of the base, many share the cost of a pass. */
export interface GroupSize {
  readonly fewest: number;
  /** Of those that share everything. */
  readonly most: number;
}

/** How large a group may be whose candidates share everything before this position. */
export type SizeGroup = (first: number) => GroupSize;

export const processorGroups: SizeGroup = () => ({ fewest: 8, most: Infinity });

/** Full passes: so many rows fit into one, and a candidate has the fewer the later it begins. */
export function fillPasses(copiesOf: (first: number) => number): SizeGroup {
  return (first) => {
    const most = copiesOf(first);
    const full = most < step ? most : Math.floor(most / step) * step;
    return { fewest: full, most: full };
  };
}

/** Groups of candidates whose first edits lie close together, so that little before them is read again. */
export function groupByBeginning(candidates: readonly Candidate[], sizeOf: SizeGroup): Candidate[][] {
  const sorted = [...candidates].sort((left, right) => left.first - right.first);
  const groups: Candidate[][] = [];
  for (const candidate of sorted) {
    const last = groups.at(-1);
    if (last !== undefined && hasRoom(last, candidate)) last.push(candidate);
    else groups.push([candidate]);
  }
  return groups;

  function hasRoom(group: readonly Candidate[], { first }: Candidate): boolean {
    const own = group[0]!.first;
    const { fewest, most } = sizeOf(own);
    return group.length < (own === first ? Math.max(fewest, most) : fewest);
  }
}

/** Sequences that a device's pass has for so many candidates; nobody looks at those that are too many. */
export function roundCopies(count: number): number {
  return count < step ? count : Math.ceil(count / step) * step;
}
