/**
 * Dynamic trees (EAGLE-2, arXiv 2406.16858, section 4): each level expands the most likely nodes, and the best of all
 * nodes are kept.
 */
import { topIndices } from '../../core/vector.js';
import { Draft, finishTree, type TokenTree } from './token-tree.js';
import type { DynamicPolicy } from './policy.js';
import type { DraftSession } from '../drafter.js';
import { detailFor } from '../programs/scores.js';
import type { TreeLevel, TreeSize } from '../programs/program-drafts.js';

/** Deeper trees would need too large a program. */
export const isGrownAtOnce = ({ depth }: TreeSize): boolean => depth <= 12;

export interface DynamicStart {
  readonly root: number;
  readonly depthLimit: number;
}

export async function growDynamicTree(
  expand: DraftSession['expand'],
  levels: readonly TreeLevel[] | undefined,
  { total, depth, topK }: DynamicPolicy,
  { root, depthLimit }: DynamicStart,
): Promise<TokenTree> {
  const draft = new Draft(root);
  const scores: number[] = [0]; // [node] the drafter's log-probability of the whole path
  let frontier = [0];
  for (let level = 0; level <= depth && level < depthLimit; level++) {
    const { tokens, scores: reached, chosen } = levels?.[level] ?? (await expandLevel());
    const first = draft.tokens.length;
    const width = tokens.length / frontier.length;
    tokens.forEach((token, child) => {
      draft.add(token, frontier[Math.floor(child / width)]!);
      scores.push(reached[child]!);
    });
    frontier = Array.from(chosen, (child) => first + child);
  }

  async function expandLevel(): Promise<TreeLevel> {
    const expanded = await expand(draft, frontier, detailFor(topK));
    const best = frontier.map((_, row) => expanded.top(row, topK));
    const tokens = best.flatMap((own) => Array.from(own.tokens));
    const reached = best.flatMap(({ logProbabilities }, row) =>
      Array.from(logProbabilities, (logProbability) => scores[frontier[row]!]! + logProbability),
    );
    // Programs add in float32.
    const rounded = Float32Array.from(reached);
    return { tokens: Int32Array.from(tokens), scores: rounded, chosen: topIndices(rounded, topK) };
  }

  // A child never scores above its parent and comes later, so the best nodes are connected.
  const candidates = Float64Array.from(scores.slice(1));
  const kept = Array.from(
    topIndices(candidates, Math.min(total - 1, candidates.length)),
    (index) => index + 1,
  );
  kept.sort((left, right) => left - right);
  const selected = new Draft(root);
  const placed = new Map<number, number>([[0, 0]]);
  for (const node of kept) {
    placed.set(node, selected.add(draft.tokens[node]!, placed.get(draft.parents[node]!)!));
  }
  return finishTree(selected, undefined);
}
