import type { RowBuffer } from '../../runtime/row-buffer.js';

/** `top`: the best few per row; `logits`: also the whole vocabulary; `kept`: rows stay on the device. */
export type ScoreDetail = 'top' | 'logits' | 'kept';

export interface TopTokens {
  readonly tokens: ArrayLike<number>; // [count] descending
  readonly logProbabilities: ArrayLike<number>; // [count]
}

export interface DraftScores {
  /** Fewer if the draft vocabulary is smaller. */
  top(row: number, count: number): TopTokens;
  /** -Infinity for tokens that cannot be proposed. Needs detail 'logits'. */
  logits(row: number): Float32Array; // [vocabulary]
  /** One row per node. Needs detail 'kept'. */
  kept?(nodes: number): RowBuffer; // [node, draft vocabulary]
}

/** Enough for every published tree without reading whole rows. */
export const rankedInGraph = 10;

export function detailFor(ranks: number): ScoreDetail {
  return ranks > rankedInGraph ? 'logits' : 'top';
}
