/**
 * How a drafter's scores become a tree, level by level. A chain takes one token per level, a static tree fills a shape by
 * rank, and a dynamic tree expands the likeliest paths (EAGLE-2, arXiv 2406.16858, section 4). Above temperature 0 chains
 * and static trees draw without replacement from the drafter's processed distribution, which verification needs.
 */
import { MistletoeError } from '../../core/errors.js';
import { drawWithoutReplacement, type Random } from '../../core/random.js';
import { toDistribution, type SamplingOptions } from '../../core/sampling.js';
import { topIndices } from '../../core/vector.js';
import type { DrawnTokens } from '../../model/lanes/sampler.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import { detailFor, type DraftScores, type ScoreDetail } from './draft-scores.js';
import { createTree, type Laws, type TokenTree } from './token-tree.js';
import type { DynamicPolicy, ResolvedPolicy } from './policy.js';
import type { TreeShape } from './tree-shapes.js';

/** What a drafter is asked to propose after the newest token of a text. */
export interface Ask {
  readonly root: number;
  readonly policy: ResolvedPolicy;
  readonly sampling: SamplingOptions;
  readonly random: Random;
  /** Levels that fit the contexts of target and drafter. */
  readonly depthLimit: number;
  /** Ask only lookups; default: all. */
  readonly source?: 'lookup' | undefined;
  /** Follow these tokens instead of drawing; chains only. */
  readonly along?: readonly number[] | undefined;
  /** Called with the drafter's passes, as if each level were a pass. */
  readonly onPasses?: ((count: number) => void) | undefined;
  /**
   * Called with all tokens of a most likely chain, if they are in the runtime before the host knows them: [level], int32
   * bits.
   */
  readonly onTokens?: ((tokens: RowBuffer) => void) | undefined;
}

/** Nodes with their parents and depths, while a tree grows. */
export interface GrowingDraft {
  readonly tokens: readonly number[]; // [node]
  readonly parents: readonly number[]; // [node]
  readonly depths: readonly number[]; // [node]
}

class Draft implements GrowingDraft {
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

  finish(laws?: Laws): TokenTree {
    return createTree({ tokens: Int32Array.from(this.tokens), parents: Int32Array.from(this.parents), laws });
  }
}

/**
 * Scores of the tokens after each node. Node 0 is the root; the nodes of a call have one depth, and their parents were
 * expanded since the last observe.
 */
export type Expand = (
  draft: GrowingDraft,
  nodes: readonly number[],
  want: ScoreDetail,
) => Promise<DraftScores>;

export interface TreeSize {
  /** Rounds of expansion after the root's, at least one. */
  readonly depth: number;
  /** Expanded nodes per round, and children of each. */
  readonly topK: number;
}

/** Children of the expanded nodes, `topK` each. */
export interface TreeLevel {
  readonly tokens: Int32Array;
  readonly scores: Float32Array;
  /** Children expanded next; empty in the last level. */
  readonly chosen: ArrayLike<number>;
}

/** Deeper trees would need too large a program. */
export const isGrownAtOnce = ({ depth }: TreeSize): boolean => depth <= 12;

/** The parts that a tree grows from; the others are the same in fewer passes. */
export interface LevelPrograms {
  readonly expand: Expand;
  /** Draws siblings from scores of detail `kept`; only if the runtime draws in programs. */
  readonly siblings?: SiblingDrawer | undefined;
  /** A whole chain; undefined if the programs can't draw it so. */
  readonly chain?: ((ask: Ask, length: number) => Promise<TokenTree> | undefined) | undefined;
  /** All levels of a dynamic tree. */
  readonly tree?: ((size: TreeSize) => Promise<readonly TreeLevel[]>) | undefined;
}

/** The part of a session that drafts, level by level. */
export const draftByLevels = (levels: LevelPrograms) => ({
  levels,
  propose: (ask: Ask): Promise<TokenTree> => growTree(levels, ask),
});

export async function growTree(programs: LevelPrograms, ask: Ask): Promise<TokenTree> {
  const { policy, depthLimit, along, onPasses = () => undefined } = ask;
  if (depthLimit < 1) return new Draft(ask.root).finish();
  const expand: Expand = (...given) => {
    onPasses(1);
    return programs.expand(...given);
  };
  if (along !== undefined && policy.kind !== 'chain') throw notAChain(policy);
  if (policy.kind === 'dynamic') {
    const growAtOnce = isGrownAtOnce(policy) ? programs.tree : undefined;
    if (growAtOnce !== undefined) onPasses(policy.depth + 1);
    return growDynamicTree(expand, await growAtOnce?.(policy), policy, ask);
  }
  if (policy.kind === 'tree') return growStaticTree(programs, expand, ask, policy.shape);
  const chain = along === undefined ? programs.chain?.(ask, policy.length) : undefined;
  if (chain === undefined) return growStaticTree(programs, expand, ask, chainShape(policy.length));
  onPasses(policy.length);
  return chain;
}

function notAChain({ kind }: ResolvedPolicy): MistletoeError {
  return new MistletoeError('usage', `A draft along given tokens is a chain; the policy is ${kind}.`, {
    hint: 'Use for example --draft chain:4.',
  });
}

function chainShape(length: number): TreeShape {
  const nodes = Array.from({ length: length + 1 }, (_, node) => node);
  return {
    name: `chain:${length}`,
    parents: Int32Array.from(nodes, (node) => node - 1),
    ranks: Int32Array.from(nodes, (node) => (node === 0 ? -1 : 0)),
    depths: Int32Array.from(nodes),
  };
}

/** Chooses the children of a static tree's nodes. */
interface SiblingChooser {
  /** [node] Fewer tokens than requested if there are no more. */
  choose(
    draft: GrowingDraft,
    nodes: readonly number[],
    counts: readonly number[],
  ): Promise<readonly ArrayLike<number>[]>;
  laws?(nodes: number): Laws;
}

/** @param ranks max ranks of any node, because some heads run once for the whole tree */
function rankSiblings(expand: Expand, ranks: number): SiblingChooser {
  return {
    async choose(draft, nodes, counts) {
      const scores = await expand(draft, nodes, detailFor(ranks));
      return counts.map((count, row) => scores.top(row, count).tokens);
    },
  };
}

/** Drawn, or taken from `along` as if drawn: a token with probability 0 ends the chain. */
function drawOnHost(expand: Expand, { sampling, random, along }: Ask): SiblingChooser {
  const laws: (Float32Array | undefined)[] = [];
  return {
    async choose(draft, nodes, counts) {
      const scores = await expand(draft, nodes, 'logits');
      return counts.map((count, row) => {
        const node = nodes[row]!;
        const law = (laws[node] = toDistribution(scores.logits(row), sampling));
        if (along === undefined) return drawWithoutReplacement(law, count, random);
        const token = along[draft.depths[node]!];
        return token === undefined || law[token] === 0 ? [] : [token];
      });
    },
    laws: () => laws,
  };
}

function drawInPrograms(
  expand: Expand,
  siblings: SiblingDrawer,
  { sampling, random }: Ask,
  most: number,
): SiblingChooser {
  let kept: RowBuffer | undefined;
  return {
    async choose(draft, nodes, counts) {
      const scores = await expand(draft, nodes, 'kept');
      const rows = scores.kept!(nodes.length);
      const uniforms = counts.map((length) => Array.from({ length }, () => random.next()));
      const { tokens, distributions } = await siblings.draw(rows, uniforms, sampling);
      rows.free();
      kept ??= siblings.newRows(most);
      kept.copyRows(
        distributions,
        nodes.map((_, row) => row),
        nodes,
      );
      distributions.free();
      return tokens;
    },
    laws: (nodes) => kept!.rows(0, nodes),
  };
}

async function growStaticTree(
  { siblings }: LevelPrograms,
  expand: Expand,
  ask: Ask,
  shape: TreeShape,
): Promise<TokenTree> {
  const { sampling, depthLimit, along } = ask;
  const isDrawn = sampling.temperature > 0;
  const chooser = !isDrawn
    ? rankSiblings(expand, 1 + Math.max(...shape.ranks))
    : siblings === undefined || along !== undefined
      ? drawOnHost(expand, ask)
      : drawInPrograms(expand, siblings, ask, shape.parents.length);
  const draft = new Draft(ask.root);
  const placed = new Map<number, number>([[0, 0]]); // node of the shape -> node of the draft
  let next = 1;
  for (let depth = 0; next < shape.parents.length && depth < depthLimit; depth++) {
    // Children of a level are grouped by parent.
    const children = new Map<number, number[]>();
    for (; next < shape.parents.length && shape.depths[next] === depth + 1; next++) {
      const parent = shape.parents[next]!;
      if (!placed.has(parent)) continue;
      children.set(parent, [...(children.get(parent) ?? []), next]);
    }
    if (children.size === 0) break;
    const frontier = [...children.keys()].map((node) => placed.get(node)!);
    const groups = [...children.values()];
    // Skipping a drawn sibling would bias later ones, so gaps in the shape are ignored.
    const places = groups.map((own) => own.map((node, index) => (isDrawn ? index : shape.ranks[node]!)));
    const counts = places.map((own) => own.at(-1)! + 1);
    const tokens = await chooser.choose(draft, frontier, counts);
    groups.forEach((own, row) => {
      own.forEach((node, index) => {
        const token = tokens[row]![places[row]![index]!];
        if (token !== undefined) placed.set(node, draft.add(token, frontier[row]!));
      });
    });
  }
  return draft.finish(chooser.laws?.(draft.tokens.length));
}

/** The best of all nodes are kept. */
async function growDynamicTree(
  expand: Expand,
  levels: readonly TreeLevel[] | undefined,
  { total, depth, topK }: DynamicPolicy,
  { root, depthLimit }: Ask,
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
  return selected.finish();
}

/** Draws siblings without replacement on the device. */
export interface SiblingDrawer {
  draw(
    scores: RowBuffer, // [node, draft vocabulary]
    uniforms: readonly (readonly number[])[], // [node][sibling]
    sampling: SamplingOptions,
  ): Promise<DrawnTokens>;
  /** Zeros. [count, vocabulary] */
  newRows(count: number): RowBuffer;
}
