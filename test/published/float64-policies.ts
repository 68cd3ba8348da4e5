/**
 * How scores become a tree, told again: a greedy chain, a static tree filled by rank, and EAGLE-2's dynamic tree. Each
 * also says by how much its closest decision was made: near a tie the reference and a correct drafter in single
 * precision may part, and a test that meets one proves nothing.
 */
import type { Vector } from './float64-tensors.js';

export interface ReferenceTree {
  readonly tokens: readonly number[]; // [node], the root first
  readonly parents: readonly number[]; // [node]
  /** The smallest difference between two scores that decided something. */
  readonly margin: number;
}

/** Scores behind a path of drafted tokens. */
export type PathScorer = (path: readonly number[]) => Vector;

interface Ranking {
  readonly indices: readonly number[];
  readonly margin: number;
}

/** The best few, best first, and how far each is from the one behind it, the first left out included. */
function rank(scores: ArrayLike<number>, count: number): Ranking {
  const indices = Array.from(scores, (_, index) => index)
    .filter((index) => scores[index]! > -Infinity)
    .sort((left, right) => scores[right]! - scores[left]!);
  let margin = Infinity;
  for (let place = 0; place < Math.min(count, indices.length - 1); place++) {
    margin = Math.min(margin, scores[indices[place]!]! - scores[indices[place + 1]!]!);
  }
  return { indices: indices.slice(0, count), margin };
}

export function draftChain(score: PathScorer, root: number, length: number): ReferenceTree {
  return draftStaticTree(
    score,
    root,
    Array.from({ length }, (_, level) => Array<number>(level + 1).fill(0)),
  );
}

/** `paths` are ranks from the root down, as in Medusa's lists of choices. */
export function draftStaticTree(
  score: PathScorer,
  root: number,
  paths: readonly (readonly number[])[],
): ReferenceTree {
  const ordered = [...paths].sort((left, right) => left.length - right.length || compareRanks(left, right));
  const nodes = new Map<string, { node: number; tokens: readonly number[] }>([['', { node: 0, tokens: [] }]]);
  const tokens = [root];
  const parents = [-1];
  let margin = Infinity;
  for (const path of ordered) {
    const parent = nodes.get(path.slice(0, -1).join())!;
    const ranking = rank(score(parent.tokens), path.at(-1)! + 1);
    margin = Math.min(margin, ranking.margin);
    const token = ranking.indices[path.at(-1)!]!;
    nodes.set(path.join(), { node: tokens.length, tokens: [...parent.tokens, token] });
    tokens.push(token);
    parents.push(parent.node);
  }
  return { tokens, parents, margin };
}

function compareRanks(left: readonly number[], right: readonly number[]): number {
  const place = left.findIndex((value, index) => value !== right[index]);
  return place < 0 ? 0 : left[place]! - right[place]!;
}

export interface DynamicFacts {
  /** Nodes kept, the root included. */
  readonly total: number;
  /** Rounds after the first level. */
  readonly depth: number;
  readonly topK: number;
}

interface Candidate {
  readonly parent: Candidate | undefined;
  readonly token: number;
  /** Log-probability of the whole path. */
  readonly score: number;
  readonly path: readonly number[];
}

export function draftDynamicTree(
  score: PathScorer,
  root: number,
  { total, depth, topK }: DynamicFacts,
): ReferenceTree {
  const created: Candidate[] = [];
  let margin = Infinity;
  let frontier: (Candidate | undefined)[] = [undefined];
  for (let level = 0; level <= depth; level++) {
    const children = frontier.flatMap((parent): Candidate[] => {
      const path = parent?.path ?? [];
      const scores = score(path);
      const ranking = rank(scores, topK);
      margin = Math.min(margin, ranking.margin);
      return ranking.indices.map((token) => ({
        parent,
        token,
        score: (parent?.score ?? 0) + scores[token]!,
        path: [...path, token],
      }));
    });
    created.push(...children);
    const ranking = rank(
      children.map((child) => child.score),
      topK,
    );
    margin = Math.min(margin, ranking.margin);
    frontier = ranking.indices.map((index) => children[index]);
  }
  const scores = created.map((candidate) => candidate.score);
  const ordered = [...scores].sort((left, right) => right - left);
  // Only the border counts: what is kept stands in the order of its creation.
  margin = Math.min(margin, (ordered[total - 2] ?? Infinity) - (ordered[total - 1] ?? -Infinity));
  const border = ordered[total - 2] ?? -Infinity;
  const kept = created.filter((candidate) => candidate.score >= border);
  const placeOf = new Map<Candidate | undefined, number>([[undefined, 0]]);
  kept.forEach((candidate, index) => placeOf.set(candidate, index + 1));
  return {
    tokens: [root, ...kept.map(({ token }) => token)],
    parents: [-1, ...kept.map(({ parent }) => placeOf.get(parent)!)],
    margin,
  };
}
