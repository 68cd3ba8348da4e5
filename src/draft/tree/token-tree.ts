/**
 * The draft type: a tree of candidate continuations, verified in one target pass. Node 0 is the last emitted token.
 * Parents come before children. A chain is a tree.
 */
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { DraftSession, GrowingDraft, TreeLevel, TreeSize } from '../drafter.js';
import { topIndices } from '../../core/vector.js';
import type { DynamicPolicy } from './policy.js';
import { detailFor } from '../programs/scores.js';

export class Draft implements GrowingDraft {
  readonly tokens: number[];
  readonly parents: number[] = [-1];
  readonly depths: number[] = [0];

  constructor(root: number) {
    this.tokens = [root];
  }

  add(token: number, parent: number): number {
    this.parents.push(parent);
    this.depths.push(this.depths[parent]! + 1);
    return this.tokens.push(token) - 1;
  }
}

/** `distributions`: of nodes whose children were drawn. */
export function finishTree(
  draft: Pick<GrowingDraft, 'tokens' | 'parents'>,
  distributions: readonly (Float32Array | undefined)[] | RowBuffer | undefined,
): TokenTree {
  const isKept = distributions !== undefined && 'rowCount' in distributions;
  return createTree({
    tokens: Int32Array.from(draft.tokens),
    parents: Int32Array.from(draft.parents),
    origin: distributions === undefined ? 'deterministic' : 'sampled',
    draftDistributions: isKept ? [] : (distributions ?? []),
    keptDistributions: isKept ? distributions : undefined,
  });
}

/**
 * How siblings were chosen: drawn without replacement, or the most likely tokens. Verification depends on it.
 */
export type TreeOrigin = 'sampled' | 'deterministic';

export interface TokenTree {
  readonly tokens: Int32Array; // [node]
  readonly parents: Int32Array; // [node] parents[0] = -1, parents[node] < node
  readonly depths: Int32Array; // [node] depths[0] = 0
  readonly origin: TreeOrigin;
  /** [node] -> [vocabulary] Needed if origin is 'sampled'. */
  readonly draftDistributions: readonly (Float32Array | undefined)[];
  /** On the device. [node, vocabulary] */
  readonly keptDistributions?: RowBuffer | undefined;
}

/** Keeps the given arrays. Siblings are tried in node order. */
export function createTree({
  draftDistributions = [],
  ...parts
}: Omit<TokenTree, 'depths' | 'draftDistributions'> &
  Partial<Pick<TokenTree, 'draftDistributions'>>): TokenTree {
  const depths = new Int32Array(parts.parents.length);
  for (let node = 1; node < depths.length; node++) depths[node] = depths[parts.parents[node]!]! + 1;
  return { ...parts, depths, draftDistributions };
}

/** `distributions[i]`: of `tokens[i]`; without them the chain is deterministic. */
export function chainTree(
  root: number,
  tokens: ArrayLike<number>, // [draft]
  distributions?: readonly Float32Array[] | RowBuffer, // [draft] -> [vocabulary]
): TokenTree {
  const nodes = [root, ...Array.from(tokens)];
  return finishTree({ tokens: nodes, parents: nodes.map((_, node) => node - 1) }, distributions);
}

/** The tree with a path of these tokens below its root, which shares the nodes that are there already. */
export function addPath(tree: TokenTree, tokens: readonly number[]): TokenTree {
  const draft = { tokens: [...tree.tokens], parents: [...tree.parents] };
  let node = 0;
  for (const token of tokens) {
    const parent = node;
    node = draft.tokens.findIndex((other, child) => other === token && draft.parents[child] === parent);
    if (node >= 0) continue;
    draft.parents.push(parent);
    node = draft.tokens.push(token) - 1;
  }
  return finishTree(draft, undefined);
}

export function pathTo({ parents, depths }: Pick<TokenTree, 'parents' | 'depths'>, node: number): number[] {
  const path = new Array<number>(depths[node]!);
  for (let current = node; current > 0; current = parents[current]!) path[depths[current]! - 1] = current;
  return path;
}

// Dynamic trees (EAGLE-2, arXiv 2406.16858, section 4): each level expands the most likely nodes, and the best of all
// nodes are kept.

/** Deeper trees would need too large a program. */
export const isGrownAtOnce = ({ depth }: TreeSize): boolean => depth <= 12;

export async function growDynamicTree(
  expand: DraftSession['expand'],
  levels: readonly TreeLevel[] | undefined,
  { total, depth, topK }: DynamicPolicy,
  { root, depthLimit }: { readonly root: number; readonly depthLimit: number },
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
