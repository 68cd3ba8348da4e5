/**
 * A draft is a token tree. Node 0 is the root, the newest token of the text; a chain is a tree. Each edge is a trial: a
 * token that was certain to be proposed, or one drawn from a law. Above temperature 0 a node's trials are judged in
 * order, each with its own law.
 */
import { splitRows } from '../../core/vector.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';

export interface Trial {
  readonly node: number;
  /** What its token was drawn from, an index of the tree's laws; undefined if it was certain to be proposed. */
  readonly law: number | undefined;
}

export type HostLaws = readonly (Float32Array | undefined)[];
/** Siblings of one law were drawn from it without replacement. On the device: rows of a buffer. */
export type Laws = HostLaws | RowBuffer; // [law] -> [vocabulary]

export interface TokenTree<Own extends Laws = Laws> {
  readonly tokens: Int32Array; // [node]
  readonly parents: Int32Array; // [node] parents[0] = -1, parents[node] < node
  readonly depths: Int32Array; // [node] depths[0] = 0
  /** [node] Of its children, in the order of judging. Joined trees try a child once for each that proposed it. */
  readonly trials: readonly (readonly Trial[])[];
  readonly laws: Own;
}

export interface TreeParts<Own extends Laws = Laws> {
  readonly tokens: Int32Array; // [node]
  readonly parents: Int32Array; // [node]
  /** [node] What the node's children were drawn from; absent if all tokens were certain. */
  readonly laws?: Own | undefined;
}

export const isOnDevice = (laws: Laws): laws is RowBuffer => 'rowCount' in laws;

/** Keeps the given arrays. Each node is tried once, in node order. */
export function createTree<Own extends Laws = HostLaws>({
  tokens,
  parents,
  laws,
}: TreeParts<Own>): TokenTree<Own | HostLaws> {
  const depths = new Int32Array(parents.length);
  const trials = Array.from(parents, (): Trial[] => []);
  for (let node = 1; node < parents.length; node++) {
    const parent = parents[node]!;
    depths[node] = depths[parent]! + 1;
    trials[parent]!.push({ node, law: laws === undefined ? undefined : parent });
  }
  return { tokens, parents, depths, trials, laws: laws ?? [] };
}

/** `laws[i]`: of `tokens[i]`; without them the tokens were certain. */
export function chainTree<Own extends Laws = HostLaws>(
  root: number,
  tokens: ArrayLike<number>, // [draft]
  laws?: Own,
): TokenTree<Own | HostLaws> {
  const nodes = Int32Array.of(root, ...Array.from(tokens));
  return createTree({ tokens: nodes, parents: nodes.map((_, node) => node - 1), laws });
}

export const isDrawn = ({ trials }: TokenTree): boolean =>
  trials.some((own) => own.some(({ law }) => law !== undefined));

/** The tree with laws that a runtime may have kept; these are freed. */
export async function bringLaws<Tree extends TokenTree>(tree: Tree): Promise<Tree & TokenTree<HostLaws>> {
  const { laws } = tree;
  if (!isOnDevice(laws)) return { ...tree, laws };
  try {
    return { ...tree, laws: splitRows(await laws.read(), laws.width) };
  } finally {
    laws.free();
  }
}

/**
 * One tree of all. Equal paths share nodes, and so the rows that the target reads, but never a trial: trying what two
 * drafters proposed only once would change the distribution of the answer. A parent's trials are in the order of the
 * trees. Laws have to be on the host, or of one tree only.
 */
export function joinTrees(trees: readonly TokenTree[]): TokenTree {
  const drafts = trees.filter(({ tokens }) => tokens.length > 1);
  if (drafts.length < 2) return drafts[0] ?? trees[0]!;
  const tokens = [drafts[0]!.tokens[0]!];
  const parents = [-1];
  const trials: Trial[][] = [[]];
  const places = new Map<string, number>();
  const laws: (Float32Array | undefined)[] = [];
  for (const tree of drafts) {
    const firstLaw = laws.length;
    const placed = [0]; // [node of the tree]
    for (let node = 1; node < tree.tokens.length; node++) {
      const [parent, token] = [placed[tree.parents[node]!]!, tree.tokens[node]!];
      const key = `${parent} ${token}`;
      const place = places.get(key) ?? tokens.length;
      placed.push(place);
      if (place < tokens.length) continue;
      places.set(key, place);
      tokens.push(token);
      parents.push(parent);
      trials.push([]);
    }
    tree.trials.forEach((own, parent) => {
      for (const { node, law } of own) {
        const joined = law === undefined ? undefined : firstLaw + law;
        trials[placed[parent]!]!.push({ node: placed[node]!, law: joined });
      }
    });
    if (!isOnDevice(tree.laws)) laws.push(...tree.laws);
  }
  const kept = drafts.find((tree) => isOnDevice(tree.laws));
  const joined = createTree({ tokens: Int32Array.from(tokens), parents: Int32Array.from(parents) });
  return { ...joined, trials, laws: kept?.laws ?? laws };
}

export function pathTo({ parents, depths }: Pick<TokenTree, 'parents' | 'depths'>, node: number): number[] {
  const path = new Array<number>(depths[node]!);
  for (let current = node; current > 0; current = parents[current]!) path[depths[current]! - 1] = current;
  return path;
}
