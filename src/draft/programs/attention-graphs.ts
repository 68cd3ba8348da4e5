/** The graphs of drafters with attention: one level, and a chain or a dynamic tree in one program. */
import { multiplyDimensions } from '../../graph/dimension.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { broadcast, concatenate, slice } from '../../graph/operations/shaping.js';
import { constant, input, type Tensor } from '../../graph/tensor.js';
import { blocked } from '../../model/attention-inputs.js';
import { joinRows, type AttentionContext } from '../../model/decoder.js';
import * as lane from '../../model/lanes/lane-graph.js';
import type { NamedTensors } from '../../runtime/program.js';
import type { TreeSize } from '../tree/grow-tree.js';
import { type AttentionHead, type FedRows, fillWithMasks, type MaskRow } from './attention-head.js';
import { chainOutputs, declareChainContexts, type TokenChooser } from './chain-program.js';
import { scoreOutputs } from './scores.js';
import { buildTree } from './tree-program.js';

const embedGiven = ({ embedding }: AttentionHead): Tensor =>
  gatherRows(embedding, input('tokens', [lane.row, lane.lanes], 'int32'));

const declareStates = (width: number): Tensor =>
  lane.joinLanes(input('states', [lane.row, lane.lanes, width]));

// Embeddings are [row, lanes, hidden], features [1, row * lanes, hidden].

export function feedVerified(head: AttentionHead): FedRows {
  const { stateWidth } = head;
  const features = stateWidth === 0 ? undefined : head.fuse(declareStates(stateWidth));
  return { embeddings: embedGiven(head), features };
}

export function feedDrafted(head: AttentionHead): FedRows {
  const { mask, featureWidth } = head;
  if (mask !== undefined) return feedMasks(head, mask, lane.row);
  return { embeddings: embedGiven(head), features: declareStates(featureWidth) };
}

function feedMasks(head: AttentionHead, mask: MaskRow, rows: typeof lane.row | number): FedRows {
  const { embeddings, features } = fillWithMasks(head, mask, [rows, lane.lanes]);
  return { embeddings, features: features && lane.joinLanes(features) };
}

/** One pass over rows that are fed with these features. */
export function buildLevel(head: AttentionHead, fed: FedRows): NamedTensors {
  const context = lane.declareAttention(head.sizes);
  const past = lane.declarePast(head.sizes);
  const step = head.step(lane.joinLanes(fed.embeddings), fed.features, context, { past });
  const selected = lane.selectRows(step.features);
  return {
    ...scoreOutputs(head.score(selected), head.runtime),
    ...(head.featureWidth === 0 ? {} : { features: selected }),
    rows: lane.stackRows(step.rows, head.sizes),
  };
}

/** The same run reads the newly verified rows. */
export function buildChain(head: AttentionHead, length: number, choose: TokenChooser): NamedTensors {
  if (head.mask !== undefined && length > 1) return buildMaskedChain(head, head.mask, length, choose);
  const { context, rows, root, draft } = readVerified(head);
  const chosen = [choose(root)];
  for (const level of declareChainContexts(context, length - 1, head))
    chosen.push(choose(draft(chosen.at(-1)!.token, level)));
  return chainOutputs(chosen, rows);
}

export function buildDynamicTree(head: AttentionHead, size: TreeSize): NamedTensors {
  const { context, rows, root, draft } = readVerified(head);
  const widen = (x: Tensor): Tensor =>
    x.shape[0] === 1 ? broadcast(x, [size.topK, ...x.shape.slice(1)]) : x;
  const tree = buildTree(head, size, context, root, (round) =>
    draft(round.tokens, round.context, (before) => round.fromParents(widen(before))),
  );
  return { ...tree, rows };
}

/** Verified rows first, then drafted ones. */
function readVerified(head: AttentionHead) {
  const { mask } = head;
  const verified = feedVerified(head);
  const context = lane.declareAttention(head.sizes);
  const past = lane.declarePast(head.sizes);
  const first = head.step(lane.joinLanes(verified.embeddings), verified.features, context, { past });
  let earlier = first.rows;
  let features = lane.selectRows(first.features, 1);
  return {
    context,
    rows: lane.stackRows(first.rows, head.sizes),
    /** Logits after the last verified row. [1, lanes, draft vocabulary] */
    root: head.score(features),
    /**
     * Logits after drafted tokens, which see all earlier ones. [n, lanes] -> [n, lanes, draft vocabulary]
     * @param arrange moves rows of the previous call to their children
     */
    draft: (tokens: Tensor, own: AttentionContext, arrange = (rows: Tensor): Tensor => rows): Tensor => {
      const fed =
        mask === undefined
          ? {
              embeddings: gatherRows(head.embedding, tokens),
              features: verified.features && lane.joinLanes(arrange(features)),
            }
          : feedMasks(head, mask, tokens.shape[0] as number);
      const step = head.step(lane.joinLanes(fed.embeddings), fed.features, own, { past, earlier });
      earlier = earlier.map((before, layer) => joinRows(before, step.rows[layer]!));
      features = lane.partLanes(step.features, tokens.shape[0]);
      return head.score(features);
    },
  };
}

/** Levels behind masks do not depend on the drafted tokens: one pass over the verified rows and a mask for each. */
function buildMaskedChain(
  head: AttentionHead,
  mask: MaskRow,
  length: number,
  choose: TokenChooser,
): NamedTensors {
  const { lanes } = lane;
  const { embeddings, features } = feedVerified(head);
  const context = lane.declareAttention(head.sizes);
  const past = lane.declarePast(head.sizes);
  const levels = declareChainContexts(context, length - 1, head);
  const masks = feedMasks(head, mask, levels.length);
  // A row sees no level behind it.
  const widen = ({ mask: seen }: AttentionContext, missing: number): Tensor => {
    const block = broadcast(constant(blocked), [...seen.shape.slice(0, -1), missing]);
    return missing === 0 ? seen : concatenate([seen, block], -1);
  };
  const joined: AttentionContext = {
    cosine: concatenate([context.cosine, ...levels.map(({ cosine }) => cosine)], 0),
    sine: concatenate([context.sine, ...levels.map(({ sine }) => sine)], 0),
    mask: concatenate(
      [context, ...levels].map((level, place) => widen(level, levels.length - place)),
      -2,
    ),
    lanes,
  };
  const step = head.step(
    lane.joinLanes(concatenate([embeddings, masks.embeddings], 0)),
    features && concatenate([features, masks.features!], 1),
    joined,
    { past },
  );
  const verified = multiplyDimensions(lane.row, lanes);
  const cut = (x: Tensor): Tensor => slice(x, 1, 0, verified);
  const drafted = lane.partLanes(slice(step.features, 1, verified), levels.length);
  const logits = head.score(concatenate([lane.selectRows(step.features, 1), drafted], 0));
  const rows = step.rows.map(({ keys, values }) => ({ keys: cut(keys), values: cut(values) }));
  const chosen = Array.from({ length }, (_, level) => choose(slice(logits, 0, level, level + 1)));
  return chainOutputs(chosen, lane.stackRows(rows, head.sizes));
}
