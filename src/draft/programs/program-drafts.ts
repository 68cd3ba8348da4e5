/** Drafts that one program makes as a whole: what decides about the program, and what comes back. */
import type { Random } from '../../core/random.js';
import type { SamplingOptions } from '../../core/sampling.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';

/** What a dynamic tree's program depends on. */
export interface TreeSize {
  /** Rounds of expansion behind the root's, at least one. */
  readonly depth: number;
  /** Nodes expanded in each, and children of each. */
  readonly topK: number;
}

/** One level of a grown tree: the children of the nodes that were expanded, `topK` of each, in their order. */
export interface TreeLevel {
  readonly tokens: Int32Array;
  /** The drafter's log-probability of the path to each. */
  readonly scores: Float32Array;
  /** Children that the next level expands, in that order; empty in the last. */
  readonly chosen: ArrayLike<number>;
}

export interface DrawnChain {
  readonly tokens: readonly number[]; // [level]
  /** What each token was drawn from, and an empty row behind the last. [level + 1, vocabulary] */
  readonly distributions: RowBuffer;
}

export interface DrawnSiblings {
  /** [node] as many as were asked for, or as were possible */
  readonly tokens: readonly (readonly number[])[];
  /** [node, vocabulary] what they were drawn from */
  readonly distributions: RowBuffer;
}

/** Draws siblings without replacement where the scores lie. */
export interface SiblingDrawer {
  /** `counts`: [node] siblings behind each row of scores. */
  draw(
    scores: RowBuffer, // [node, draft vocabulary]
    counts: readonly number[],
    sampling: SamplingOptions,
    random: Random,
  ): Promise<DrawnSiblings>;
  /** Rows of zeros for the distributions of a tree. [count, vocabulary] */
  newRows(count: number): RowBuffer;
}

/** Drafts whose programs are made ahead. */
export interface PreparedDrafts {
  /** Lengths of greedy chains, and of chains that are drawn. */
  readonly chains?: readonly number[];
  readonly drawnChains?: readonly number[];
  readonly trees?: readonly TreeSize[] | undefined;
}
