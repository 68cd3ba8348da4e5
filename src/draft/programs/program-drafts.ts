/** Requests and results of drafts made by one program. */
import type { Random } from '../../core/random.js';
import type { SamplingOptions } from '../../core/sampling.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';

export interface TreeSize {
  /** Rounds of expansion after the root's, at least one. */
  readonly depth: number;
  /** Expanded nodes per round, and children of each. */
  readonly topK: number;
}

/** Children of the expanded nodes, `topK` each. */
export interface TreeLevel {
  readonly tokens: Int32Array;
  /** Log probabilities of the paths. */
  readonly scores: Float32Array;
  /** Children expanded next; empty in the last level. */
  readonly chosen: ArrayLike<number>;
}

export interface DrawnChain {
  readonly tokens: readonly number[]; // [level]
  /** With an empty last row. [level + 1, vocabulary] */
  readonly distributions: RowBuffer;
}

export interface DrawnSiblings {
  /** [node] Fewer than requested if no more were possible. */
  readonly tokens: readonly (readonly number[])[];
  /** [node, vocabulary] */
  readonly distributions: RowBuffer;
}

/** Draws siblings without replacement on the device. */
export interface SiblingDrawer {
  /** `counts`: [node] siblings per row. */
  draw(
    scores: RowBuffer, // [node, draft vocabulary]
    counts: readonly number[],
    sampling: SamplingOptions,
    random: Random,
  ): Promise<DrawnSiblings>;
  /** Zeros. [count, vocabulary] */
  newRows(count: number): RowBuffer;
}

export interface PreparedDrafts {
  /** Lengths of greedy and of sampled chains. */
  readonly chains?: readonly number[] | undefined;
  readonly drawnChains?: readonly number[] | undefined;
  readonly trees?: readonly TreeSize[] | undefined;
}
