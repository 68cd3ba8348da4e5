/**
 * Candidate suffixes from a search direction (GCG, arXiv 2307.15043): the tokens with the largest first-order gain.
 * Candidates change one token, two, or several early in a search: a pair can succeed where either change alone would
 * be vetoed.
 */
import type { Random } from '../../core/random.js';

/** `first`: the earliest changed position. */
export interface Candidate {
  readonly suffixIds: readonly number[];
  readonly first: number;
}

export interface ProposalSettings {
  readonly candidates: number;
  /** Candidate i changes `changes[i % changes.length]` tokens. */
  readonly changes: readonly number[];
}

interface Edit {
  readonly position: number;
  readonly token: number;
}

export function proposeCandidates(
  base: readonly number[],
  promising: readonly (readonly number[])[], // [position] tokens of largest gain
  { candidates, changes }: ProposalSettings,
  random: Random,
): Candidate[] {
  const positions = base.map((_, position) => position);
  return Array.from({ length: candidates }, (_, index) => {
    random.shuffle(positions);
    const chosen = positions.slice(0, changes[index % changes.length]);
    return applyEdits(
      base,
      chosen.map((position) => {
        const tokens = promising[position]!;
        return { position, token: tokens[random.nextInteger(tokens.length)]! };
      }),
    );
  });
}

/**
 * A quarter of the candidates change one token, a quarter two, the rest up to `most`, which falls to one towards the
 * end.
 */
export function planChanges(step: number, steps: number, most: number): readonly number[] {
  const large = Math.max(1, Math.round(most * (1 - step / steps) ** 2));
  return [1, large, Math.min(2, most), Math.ceil(large / 2)];
}

function applyEdits(base: readonly number[], edits: readonly Edit[]): Candidate {
  const suffixIds = [...base];
  for (const { position, token } of edits) suffixIds[position] = token;
  return { suffixIds, first: Math.min(...edits.map(({ position }) => position)) };
}

/** Joins the best changes at distinct positions (I-GCG): best, best + second, ... */
export function mergeEdits(
  base: readonly number[],
  candidates: readonly Candidate[],
  most: number,
): Candidate[] {
  const merged: Candidate[] = [];
  const taken = new Map<number, number>(); // position -> token
  let joined = 0;
  for (const { suffixIds } of candidates) {
    if (joined === most) break;
    const edits = [...suffixIds.entries()].filter(([position, token]) => token !== base[position]);
    if (edits.some(([position]) => taken.has(position))) continue;
    for (const [position, token] of edits) taken.set(position, token);
    joined += 1;
    const all = [...taken].map(([position, token]) => ({ position, token }));
    if (joined > 1) merged.push(applyEdits(base, all));
  }
  return merged;
}

export function randomSuffix(allowed: Int32Array, length: number, random: Random): number[] {
  return Array.from({ length }, () => allowed[random.nextInteger(allowed.length)]!);
}

export const keyOf = (suffixIds: readonly number[]): string => suffixIds.join(' ');
