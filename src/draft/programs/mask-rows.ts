/**
 * Drafts that read masks in the place of drafted tokens (PARD, P-EAGLE). A level does not depend on the tokens before
 * it, so one pass over the verified rows and one mask for each further level gives a whole chain.
 */
import { multiplyDimensions, type Shape } from '../../graph/dimension.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { constant } from '../../graph/operations/leaves.js';
import { broadcast, concatenate, slice } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import { blocked } from '../../model/attention-inputs.js';
import type { AttentionContext, KeyValueRows } from '../../model/decoder.js';
import * as lane from '../../model/lanes/lane-graph.js';
import type { AttentionHead, MaskRow } from './attention-head.js';
import type { TogetherRead } from './fused-drafts.js';

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
