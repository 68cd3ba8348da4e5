/** From a search direction to candidate suffixes (GCG, arXiv 2307.15043): the most promising tokens of each position. */
import type { Random } from '../core/random.js';
import { topIndices } from '../core/vector.js';

/** A change of some positions; `first` is the earliest, before which nothing differs from the base. */
export interface Candidate {
  readonly suffixIds: readonly number[];
  readonly first: number;
}

export interface ProposalSettings {
  readonly candidates: number;
  readonly topTokens: number;
  /** Positions that are edited in one step; fewer make larger batches with more in common. */
  readonly positions: number;
}

/** Every candidate changes one position to one of the tokens whose first-order gain is largest there. */
export function proposeCandidates(
  base: readonly number[],
  direction: Float32Array, // [suffix, vocabulary] larger is better
  allowed: Int32Array,
  settings: ProposalSettings,
  random: Random,
): Candidate[] {
  const vocabularySize = direction.length / base.length;
  const positions = base.map((_, position) => position);
  random.shuffle(positions);
  const chosen = positions.slice(0, settings.positions).sort((left, right) => left - right);
  const each = Math.ceil(settings.candidates / chosen.length);
  return chosen.flatMap((position) => {
    const row = direction.subarray(position * vocabularySize, (position + 1) * vocabularySize);
    const others = allowed.filter((token) => token !== base[position]);
    const gains = Float32Array.from(others, (token) => row[token]!);
    const best = Array.from(
      topIndices(gains, Math.min(settings.topTokens, others.length)),
      (index) => others[index]!,
    );
    random.shuffle(best);
    return best.slice(0, each).map((token) => replaceAt(base, position, token));
  });
}

function replaceAt(base: readonly number[], position: number, token: number): Candidate {
  const suffixIds = [...base];
  suffixIds[position] = token;
  return { suffixIds, first: position };
}

/** The best single edits at distinct positions joined one after the other (I-GCG): best, best + second, ... */
export function mergeEdits(base: readonly number[], edits: readonly Candidate[], most: number): Candidate[] {
  const merged: Candidate[] = [];
  const taken = new Set<number>();
  let suffixIds: readonly number[] = base;
  for (const edit of edits) {
    if (taken.has(edit.first)) continue;
    taken.add(edit.first);
    suffixIds = suffixIds.map((token, position) =>
      position === edit.first ? edit.suffixIds[position]! : token,
    );
    if (taken.size > 1) merged.push({ suffixIds, first: Math.min(...taken) });
    if (taken.size === most) break;
  }
  return merged;
}

/** Random allowed tokens. */
export function randomSuffix(allowed: Int32Array, length: number, random: Random): number[] {
  return Array.from({ length }, () => allowed[random.nextInteger(allowed.length)]!);
}

export const keyOf = (suffixIds: readonly number[]): string => suffixIds.join(' ');
