/** What draft models and EAGLE heads do differently, for attention-drafter.ts. */
import { subtractDimensions, multiplyDimensions, type Shape } from '../../graph/dimension.js';
import { add } from '../../graph/operations/elementwise.js';
import { slice, broadcast, concatenate } from '../../graph/operations/shaping.js';
import type { CacheSizes } from '../../model/cache/cache-pool.js';
import type { AttentionContext, DraftedRows, KeyValueRows } from '../../model/decoder.js';
import type { RotaryTable } from '../../model/rotary/rotary.js';
import type { Runtime } from '../../runtime/program.js';
import type { WeightStore } from '../../runtime/weights.js';
import type { Vocabularies } from './scores.js';
import { dropLast } from './states.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { constant, type Tensor } from '../../graph/tensor.js';
import { blocked } from '../../model/attention-inputs.js';
import * as lane from '../../model/lanes/lane-graph.js';
import type { TogetherRead } from './fused-drafts.js';

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
  readonly title: string;
  readonly runtime: Runtime;
  /** Its own, and those that it borrows from the target. */
  readonly weights: readonly WeightStore[];
  readonly sizes: CacheSizes;
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

/** What a drafter reads in the place of a drafted token. */
export interface MaskRow {
  readonly token: number;
  /** In the place of features, for heads that read them. [1, 1, hidden] */
  readonly features?: Tensor | undefined;
}

/**
 * Drafts that read masks in the place of drafted tokens (PARD, P-EAGLE). A level does not depend on the tokens before
 * it, so one pass over the verified rows and one mask for each further level gives a whole chain.
 */

export interface MaskRows {
  readonly embeddings: Tensor; // [..., hidden]
  readonly features: Tensor | undefined; // [..., hidden]
}

/** `leading`: two axes before the hidden one. */
export function fillWithMasks(
  { embedding }: Pick<AttentionHead, 'embedding'>,
  { token, features }: MaskRow,
  leading: Shape,
): MaskRows {
  const row = gatherRows(embedding, constant([token], [1], 'int32'));
  return {
    embeddings: broadcast(row, [...leading, row.shape.at(-1)!]),
    features: features && broadcast(features, [...leading, features.shape.at(-1)!]),
  };
}

interface VerifiedRows {
  readonly embeddings: Tensor; // [row, lanes, hidden]
  readonly features: Tensor | undefined; // [1, row * lanes, hidden]
  readonly context: AttentionContext;
  readonly past: readonly KeyValueRows[];
}

export function readTogether(
  head: AttentionHead,
  mask: MaskRow,
  { embeddings, features, context, past }: VerifiedRows,
  levels: readonly AttentionContext[],
): TogetherRead {
  const { row, lanes } = lane;
  const count = levels.length;
  const masks = fillWithMasks(head, mask, [count, lanes]);
  // A row sees no level behind it.
  const widen = ({ mask: seen }: AttentionContext, missing: number): Tensor => {
    const block = broadcast(constant(blocked), [...seen.shape.slice(0, -1), missing]);
    return missing === 0 ? seen : concatenate([seen, block], -1);
  };
  const joined: AttentionContext = {
    cosine: concatenate([context.cosine, ...levels.map(({ cosine }) => cosine)], 0),
    sine: concatenate([context.sine, ...levels.map(({ sine }) => sine)], 0),
    mask: concatenate(
      [widen(context, count), ...levels.map((level, place) => widen(level, count - 1 - place))],
      -2,
    ),
    lanes,
  };
  const step = head.step(
    lane.joinLanes(concatenate([embeddings, masks.embeddings], 0)),
    features && concatenate([features, lane.joinLanes(masks.features!)], 1),
    joined,
    { past },
  );
  const verified = multiplyDimensions(row, lanes);
  const cut = (x: Tensor): Tensor => slice(x, 1, 0, verified);
  const drafted = lane.partLanes(slice(step.features, 1, verified), count);
  const logits = head.score(concatenate([lane.selectRows(step.features, 1), drafted], 0));
  return {
    rows: lane.stackRows(
      step.rows.map(({ keys, values }) => ({ keys: cut(keys), values: cut(values) })),
      head.sizes,
    ),
    levels: Array.from({ length: count + 1 }, (_, level) => slice(logits, 0, level, level + 1)),
  };
}
