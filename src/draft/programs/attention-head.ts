/** What draft models and EAGLE heads do differently, for attention-drafter.ts. */
import { subtractDimensions } from '../../graph/dimension.js';
import { add } from '../../graph/operations/elementwise.js';
import { slice } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import type { CacheSizes } from '../../model/cache/cache-pool.js';
import type { AttentionContext, DraftedRows, KeyValueRows } from '../../model/decoder.js';
import type { RotaryTable } from '../../model/rotary/rotary.js';
import type { Runtime } from '../../runtime/program.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { Vocabularies } from './scores.js';
import { dropLast } from './states.js';

export interface HeadStep {
  readonly features: Tensor; // [batch, position, hidden] what the next step is fed with
  readonly rows: readonly KeyValueRows[]; // [layer]
}

export interface HeadMemory {
  readonly past: readonly KeyValueRows[] | undefined; // [layer]
  readonly earlier?: readonly KeyValueRows[] | undefined; // [layer]
  readonly drafted?: readonly DraftedRows[] | undefined; // [layer]
}

export interface AttentionHead {
  /** For messages. */
  readonly title: string;
  readonly runtime: Runtime;
  /** Its own, and those that it borrows from the target. */
  readonly weights: readonly WeightStore[];
  readonly sizes: CacheSizes;
  /** Positions that it can read. */
  readonly reach: number;
  /** Positions that a row sees, in all layers; default all. */
  readonly window?: number | undefined;
  /** Of the target's states that it reads; 0 if it reads tokens alone. */
  readonly stateWidth: number;
  /** Of the features that it is fed with while drafting; 0 if it reads tokens alone. */
  readonly featureWidth: number;
  readonly vocabularies: Vocabularies;
  readonly rotary: RotaryTable;
  readonly embedding: Tensor; // [vocabulary, hidden]
  /** Read in the place of drafted tokens and features: the levels of a chain are then independent, and one pass. */
  readonly mask?: MaskRow | undefined;
  fuse(states: Tensor): Tensor; // [batch, position, stateWidth] -> [batch, position, hidden]
  /** `features` is undefined if it reads tokens alone. */
  step(
    embeddings: Tensor, // [batch, position, hidden]
    features: Tensor | undefined, // [batch, position, hidden]
    context: AttentionContext,
    memory: HeadMemory,
  ): HeadStep;
  /** features [..., hidden] -> [..., draft vocabulary] */
  score(features: Tensor): Tensor;
  /** Throws if a prefix is longer than its context. */
  requireContext?(positions: number): void;
}

/**
 * For drafts along known tokens: what the rows of the next level see, in each layer. Each sees the true rows up to its
 * root, and of every earlier level only its own row, if that is within the window.
 * @param rows the true rows, without those that end too early for the level
 */
export function seeEarlierLevels(
  rows: readonly KeyValueRows[], // [layer]
  earlier: readonly (readonly KeyValueRows[])[], // [level - 1][layer]
  window = Infinity,
): readonly DraftedRows[] {
  const near = earlier.slice(Math.max(0, earlier.length + 1 - window));
  return rows.map((own, layer) => ({
    rows: own,
    diagonal: near.map((level, index) => cutRows(level[layer]!, near.length - index)),
  }));
}

/**
 * For drafts along known tokens: what rows that stand `level` behind their roots see of the true rows. It is what the
 * roots see, within the rows' own window. `first` is the first root.
 */
export function maskBehindRoots(mask: Tensor, first: number, level: number, window?: number): Tensor {
  const rows = mask.shape.at(-2)!;
  const roots = slice(mask, -2, first, subtractDimensions(rows, level + 1 - first));
  if (window === undefined || level === 0) return roots;
  return add(roots, slice(mask, -2, first + level, subtractDimensions(rows, 1 - first)));
}

export function cutRows({ keys, values }: KeyValueRows, count: number): KeyValueRows {
  return { keys: dropLast(keys, count), values: dropLast(values, count) };
}

/** What a drafter reads in the place of a drafted token (mask-rows.ts). */
export interface MaskRow {
  readonly token: number;
  /** In the place of features, for heads that read them. [1, 1, hidden] */
  readonly features?: Tensor | undefined;
}
