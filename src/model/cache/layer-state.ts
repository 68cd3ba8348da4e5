import type { RowBuffer } from '../../runtime/row-buffer.js';

/**
 * What a layer keeps of a sequence's verified tokens: keys and values of all positions (KvCache), or a recurrent state,
 * such as the matrix of linear attention and the last inputs of a convolution.
 * A pass never changes it. It returns rows for all nodes of a draft tree, and those of the accepted path are appended,
 * so a rejected node leaves nothing to undo. A state can therefore be a single matrix, which cannot be truncated.
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
