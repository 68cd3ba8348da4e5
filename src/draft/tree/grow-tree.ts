/**
 * How scores become a tree. A chain takes one token per level; a static tree fills a shape by rank; a dynamic tree
 * follows the drafter's confidence (token-tree.ts). Above temperature 0 chains and static trees draw without
 * replacement from the drafter's processed distribution, which verification needs.
 */
import { MistletoeError } from '../../core/errors.js';
import { drawWithoutReplacement, type Random } from '../../core/random.js';
import { toDistribution, type SamplingOptions } from '../../core/sampling.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { Drafter, DraftSession, GrowingDraft, SiblingDrawer } from '../drafter.js';
import { detailFor } from '../programs/scores.js';
import type { TokenTree } from './token-tree.js';
import { addPath, chainTree, Draft, finishTree, growDynamicTree, isGrownAtOnce } from './token-tree.js';
import { formatDraftPolicy, loadTreeShape, type DraftPolicy, type DynamicPolicy } from './policy.js';
import type { TreeShape } from './tree-shapes.js';

type Expand = DraftSession['expand'];

/** Chooses the siblings of a static tree: by rank, or drawn without replacement on the host or the device. */
interface SiblingChooser {
  /** [node] Fewer tokens than requested if there are no more. */
  choose(
    draft: GrowingDraft,
    nodes: readonly number[],
    counts: readonly number[],
  ): Promise<readonly ArrayLike<number>[]>;
  finish(draft: GrowingDraft): TokenTree;
}

/** @param ranks max ranks of any node, because some heads run once for the whole tree */
function rankSiblings(expand: Expand, ranks: number): SiblingChooser {
  return {
    async choose(draft, nodes, counts) {
      const scores = await expand(draft, nodes, detailFor(ranks));
      return counts.map((count, row) => scores.top(row, count).tokens);
    },
    finish: (draft) => finishTree(draft, undefined),
  };
}

interface DrawSettings {
  readonly sampling: SamplingOptions;
  readonly random: Random;
  readonly nodes: number;
}

function drawOnHost(expand: Expand, { sampling, random }: DrawSettings): SiblingChooser {
  const distributions: (Float32Array | undefined)[] = [];
  return {
    async choose(draft, nodes, counts) {
      const scores = await expand(draft, nodes, 'logits');
      return counts.map((count, row) => {
        const distribution = toDistribution(scores.logits(row), sampling);
        distributions[nodes[row]!] = distribution;
        return drawWithoutReplacement(distribution, count, random);
      });
    },
    finish: (draft) => finishTree(draft, distributions),
  };
}

function drawInPrograms(
  expand: Expand,
  siblings: SiblingDrawer,
  { sampling, random, nodes: most }: DrawSettings,
): SiblingChooser {
  let kept: RowBuffer | undefined;
  return {
    async choose(draft, nodes, counts) {
      const scores = await expand(draft, nodes, 'kept');
      const rows = scores.kept!(nodes.length);
      const { tokens, distributions } = await siblings.draw(rows, counts, sampling, random);
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
    finish: (draft) => finishTree(draft, kept?.rows(0, draft.tokens.length)),
  };
}

/** Checked against its drafter, with files read. */
export type ResolvedPolicy =
  | { readonly kind: 'chain'; readonly length: number }
  | { readonly kind: 'tree'; readonly shape: TreeShape }
  | DynamicPolicy;

export function resolvePolicy(
  policy: Exclude<DraftPolicy, { kind: 'auto' }>,
  drafter: Pick<Drafter, 'name' | 'maximumDepth' | 'vocabularySize' | 'isChainOnly'>,
): ResolvedPolicy {
  const { name, maximumDepth, vocabularySize, isChainOnly = false } = drafter;
  if (isChainOnly && policy.kind !== 'chain') {
    throw new MistletoeError(
      'usage',
      `The draft policy is ${formatDraftPolicy(policy)}; ${name} has one token to propose at a time, which makes chains.`,
      { hint: 'Use for example chain:4.' },
    );
  }
  const levels = policy.kind === 'tree' ? 0 : levelsOf(policy);
  if (levels > maximumDepth) {
    throw new MistletoeError(
      'usage',
      `The draft policy asks for ${levels} levels; ${name} has ${maximumDepth} heads.`,
      { hint: `Use a policy of at most ${maximumDepth} levels, for example chain:${maximumDepth}.` },
    );
  }
  if (policy.kind === 'dynamic' && policy.topK > vocabularySize) {
    throw new MistletoeError(
      'usage',
      `The draft policy asks for the best ${policy.topK} of ${vocabularySize} tokens.`,
      { hint: 'Lower TOPK in dynamic:TOTAL,DEPTH,TOPK.' },
    );
  }
  return policy.kind === 'tree'
    ? { kind: 'tree', shape: loadTreeShape(policy.source, { maximumDepth, vocabularySize }) }
    : policy;
}

export function levelsOf(policy: ResolvedPolicy): number {
  if (policy.kind === 'tree') return policy.shape.depths.at(-1)!;
  return policy.kind === 'chain' ? policy.length : policy.depth + 1;
}

/** Less likely tokens of a lookup are not worth a place in a tree. */
const minSurvival = 0.3;

/** Of a drafter with a lookup beside it. */
export type DraftSource = 'lookup' | 'drafter';

export interface DraftRequest {
  readonly root: number;
  readonly policy: ResolvedPolicy;
  readonly sampling: SamplingOptions;
  readonly random: Random;
  /** Levels that fit the contexts of target and drafter. */
  readonly depthLimit: number;
  /** Default: for a chain, the one that should bring more tokens for its cost; for a tree, both. */
  readonly source?: DraftSource | undefined;
  /** Follow these tokens instead of drawing; chains only. */
  readonly along?: readonly number[] | undefined;
  /** Called with the drafter's passes, as if each level were a pass. */
  readonly onPasses?: ((count: number) => void) | undefined;
  /** As for draftChain. */
  readonly onTokens?: ((tokens: RowBuffer) => void) | undefined;
}

export async function growTree(session: DraftSession, request: DraftRequest): Promise<TokenTree> {
  const { root, policy, sampling, depthLimit, source } = request;
  const levels = Math.min(levelsOf(policy), depthLimit);
  if (levels < 1 || source === 'drafter') return growDrafted(session, request);
  if (source === 'lookup') return chainTree(root, session.lookUp?.(levels).tokens ?? []);
  // Siblings that were drawn can't be mixed with one that wasn't.
  const isDrawn = policy.kind === 'tree' && sampling.temperature > 0;
  if (policy.kind === 'chain' || isDrawn) {
    const found = session.lookUpInstead?.(levels) ?? [];
    return found.length > 0 ? chainTree(root, found) : growDrafted(session, request);
  }
  const found = session.lookUp?.(levels);
  const likely = found?.tokens.filter((_, level) => found.survival[level]! >= minSurvival) ?? [];
  const tree = await growDrafted(session, request);
  return likely.length > 0 ? addPath(tree, likely) : tree;
}

async function growDrafted(session: DraftSession, request: DraftRequest): Promise<TokenTree> {
  const { policy, along, onPasses = () => undefined } = request;
  const { isDeterministic = false } = session;
  const expand: Expand = (...given) => {
    onPasses(1);
    return session.expand(...given);
  };
  if (along !== undefined && !isDeterministic) return growAlong(expand, request, along);
  if (policy.kind === 'dynamic') {
    const { depth, topK } = policy;
    const isAtOnce = isGrownAtOnce(policy) && request.depthLimit > 0 && session.draftTree !== undefined;
    if (isAtOnce) onPasses(depth + 1);
    const levels = isAtOnce ? await session.draftTree?.({ depth, topK }) : undefined;
    return growDynamicTree(expand, levels, policy, request);
  }
  const isCertain = isDeterministic || request.sampling.temperature === 0;
  if (policy.kind === 'chain' && isCertain && session.draftChain !== undefined) {
    if (request.depthLimit < 1) return chainTree(request.root, []);
    onPasses(policy.length);
    const tokens = await session.draftChain(policy.length, request.onTokens);
    return chainTree(request.root, tokens.slice(0, request.depthLimit));
  }
  if (policy.kind === 'chain' && session.drawChain !== undefined)
    return drawChain(session.drawChain.bind(session), request, policy.length);
  const shape = policy.kind === 'chain' ? chainShape(policy.length) : policy.shape;
  return growStaticTree(expand, session.siblings, request, shape);
}

/** Uses the same random numbers as drawing level by level. */
async function drawChain(
  draw: NonNullable<DraftSession['drawChain']>,
  { root, sampling, random, depthLimit, onPasses }: DraftRequest,
  length: number,
): Promise<TokenTree> {
  const levels = Math.min(length, depthLimit);
  if (levels < 1) return chainTree(root, []);
  const uniforms = Array.from({ length }, (_, level) => (level < levels ? random.next() : 0));
  onPasses?.(length);
  const { tokens, distributions } = await draw(uniforms, sampling);
  return chainTree(root, tokens.slice(0, levels), distributions.rows(0, levels + 1));
}

/** The chain that sampling would give if it drew these tokens. */
async function growAlong(
  expand: Expand,
  { root, policy, sampling, depthLimit }: DraftRequest,
  tokens: readonly number[],
): Promise<TokenTree> {
  if (policy.kind !== 'chain') {
    throw new MistletoeError(
      'usage',
      `A draft along given tokens is a chain; the policy is ${policy.kind}.`,
      { hint: 'Use for example --draft chain:4.' },
    );
  }
  const draft = new Draft(root);
  const distributions: Float32Array[] = [];
  const levels = Math.min(policy.length, depthLimit, tokens.length);
  for (let node = 0; node < levels; node++) {
    const scores = await expand(draft, [node], 'logits');
    const distribution = toDistribution(scores.logits(0), sampling);
    // A token with probability 0 ends the chain.
    if (distribution[tokens[node]!] === 0) break;
    distributions.push(distribution);
    draft.add(tokens[node]!, node);
  }
  return finishTree(draft, distributions);
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

async function growStaticTree(
  expand: Expand,
  siblings: SiblingDrawer | undefined,
  request: DraftRequest,
  shape: TreeShape,
): Promise<TokenTree> {
  const { sampling, random, depthLimit } = request;
  const isSampled = sampling.temperature > 0;
  const settings = { sampling, random, nodes: shape.parents.length };
  const draw =
    siblings === undefined ? drawOnHost(expand, settings) : drawInPrograms(expand, siblings, settings);
  const chooser = isSampled ? draw : rankSiblings(expand, 1 + Math.max(...shape.ranks));
  const draft = new Draft(request.root);
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
    const places = groups.map((siblings) =>
      siblings.map((sibling, index) => (isSampled ? index : shape.ranks[sibling]!)),
    );
    const counts = places.map((own) => own.at(-1)! + 1);
    const tokens = await chooser.choose(draft, frontier, counts);
    groups.forEach((siblings, row) => {
      siblings.forEach((sibling, index) => {
        const token = tokens[row]![places[row]![index]!];
        if (token !== undefined) placed.set(sibling, draft.add(token, frontier[row]!));
      });
    });
  }
  return chooser.finish(draft);
}
