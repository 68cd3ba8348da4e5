/** The tokens of a draft while it grows, and the tree that they are in the end. */
import type { RowBuffer } from '../runtime/row-buffer.js';
import type { GrowingDraft } from './drafter.js';
import type { TokenTree } from './token-tree.js';
import { createTree, drawnFrom } from './token-tree.js';

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

/** `distributions`: of the nodes whose children were drawn; undefined where nothing was drawn. */
export function finishTree(
  draft: GrowingDraft,
  distributions: readonly (Float32Array | undefined)[] | RowBuffer | undefined,
): TokenTree {
  return createTree({
    tokens: Int32Array.from(draft.tokens),
    parents: Int32Array.from(draft.parents),
    origin: distributions === undefined ? 'deterministic' : 'sampled',
    ...drawnFrom(distributions),
  });
}
