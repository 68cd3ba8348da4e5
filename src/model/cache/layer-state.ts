import type { RowBuffer } from '../../runtime/row-buffer.js';

/**
 * What a layer keeps of a sequence's verified tokens: keys and values of all positions (KvCache), or a recurrent state,
 * such as the matrix of linear attention and the last inputs of a convolution.
 * A pass reads it and returns rows for all nodes of a draft tree; those of the accepted path are appended. Rejected
 * nodes leave nothing to undo, so a recurrent state need not be truncated, which would be impossible.
 */
export interface LayerState {
  /** Verified positions. */
  readonly length: number;
  /**
   * At most once per pass.
   * @param picks a path from the first node. Each pick has its own keys and values; the last has the recurrent state.
   */
  append(rows: RowBuffer, picks: ArrayLike<number>): void;
  /** Shares its memory until one of the two appends. */
  fork(): LayerState;
  release(): void;
}
