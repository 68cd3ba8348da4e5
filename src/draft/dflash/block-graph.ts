/**
 * A drafter that fills a block of slots in one pass (DFlash, DSpark). The first slot holds the last emitted token, the
 * others a mask. In every layer the slots see the keys and values of all verified rows before them, which come from the
 * target's tapped states alone, and each other. So the keys and values of a verified row are computed once.
 */
import { type Dimension, multiplyDimensions, subtractDimensions } from '../../graph/dimension.js';
import { attention } from '../../graph/operations/attention.js';
import { add, multiply, subtract } from '../../graph/operations/elementwise.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { constant, input, type Tensor } from '../../graph/tensor.js';
import { broadcast, concatenate, reshape, slice } from '../../graph/operations/shaping.js';
import { blocked } from '../../model/attention-inputs.js';
import type { ModelConfiguration } from '../../model/configuration.js';
import type { AttentionContext, KeyValueRows } from '../../model/decoder.js';
import {
  feedForward,
  normalise,
  project,
  projectQueries,
  projectRows,
  runLayer,
} from '../../model/decoder.js';
import * as lane from '../../model/lanes/lane-graph.js';
import type { RotaryTable } from '../../model/rotary/rotary.js';
import type { DraftedLogits, TeacherForcing } from '../drafter.js';
import { dropFirst, dropLast } from '../programs/states.js';
import type { MarkovHead } from './markov-head.js';

export interface BlockHead {
  readonly scope: string;
  readonly sizes: ModelConfiguration;
  readonly rotary: RotaryTable;
  /** Of the target's taps. */
  readonly stateWidth: number;
  readonly embedding: Tensor; // [vocabulary, hidden]
  readonly mask: Tensor; // [1, hidden]
  readonly slots: number;
  /** 1 if a slot predicts the token at its own position (DFlash), 0 if it predicts the next one (DSpark). */
  readonly firstSlot: 0 | 1;
  /** [layer] Slots see only earlier slots. */
  readonly isCausal: readonly boolean[];
  readonly markov: MarkovHead | undefined;
  /**
   * The logit of the probability that a level is accepted. features [..., hidden], previous [..., rank] -> [..., 1]
   */
  readonly confidence: ((features: Tensor, previous: Tensor | undefined) => Tensor) | undefined;
  /** A greedy chain ends before the first level whose probability is below it. */
  readonly threshold: number | undefined;
  /** Without the Markov head. features [..., hidden] -> [..., draft vocabulary] */
  score(features: Tensor): Tensor;
}

/**
 * `previous`: the Markov head's rows of the previous tokens, `state`: undefined before the first level. Returns logits
 * [..., draft vocabulary] and the Markov head's state for the next level [..., rank].
 */
export function scoreLevel(
  head: BlockHead,
  features: Tensor,
  previous: Tensor | undefined,
  state: Tensor | undefined,
) {
  const logits = head.score(features);
  if (head.markov === undefined) return { logits, state };
  const step = head.markov.step(features, previous!, state);
  return { logits: add(logits, step.scores), state: step.state };
}

/** Rows of the Markov head for the previous tokens. */
export const embedPrevious = ({ markov }: BlockHead, tokens: Tensor): Tensor | undefined =>
  markov && gatherRows(markov.table, tokens);

/**
 * The Markov head's state before the first level, as in training: a first slot that predicts nothing is read behind the
 * root, too. features [..., hidden] of the first slot, previous [..., rank]
 */
function firstState(
  { markov, firstSlot }: BlockHead,
  features: Tensor,
  previous: Tensor | undefined,
): Tensor | undefined {
  return firstSlot === 0 ? undefined : markov?.step(features, previous!, undefined).state;
}

type Angles = Pick<AttentionContext, 'cosine' | 'sine'>;

const layerName = ({ scope }: BlockHead, layer: number): string => `${scope}layers.${layer}`;

/** Without the layers' input norms: the same state in all of them. states [batch, position, taps * hidden] */
function readContext(head: BlockHead, states: Tensor, angles: Angles): readonly KeyValueRows[] {
  const { scope, sizes, stateWidth } = head;
  const fused = project(states, `${scope}fc`, stateWidth, sizes.hiddenSize);
  const normed = normalise(fused, `${scope}hidden_norm`, sizes);
  return Array.from({ length: sizes.layerCount }, (_, layer) =>
    projectRows(normed, `${layerName(head, layer)}.self_attn`, sizes, angles),
  );
}

/** Rows: [layer] -> [1, row * lanes, keyValueHead, headSize] */
export function readVerified(head: BlockHead) {
  const context = lane.declareAttention(head.sizes);
  const states = lane.joinLanes(input('states', [lane.row, lane.lanes, head.stateWidth]));
  return { context, rows: readContext(head, states, context) };
}

/** One pass over the newly verified rows and the block behind them, for several sequences. */
export function runBlock(head: BlockHead) {
  const { sizes, slots } = head;
  const { lanes, row } = lane;
  const { context, rows } = readVerified(head);
  const tokens = input('tokens', [row, lanes], 'int32');
  const select = input('select', [1, lanes], 'int32');
  const root = gatherRows(reshape(tokens, [multiplyDimensions(row, lanes)]), select);
  const masks = broadcast(head.mask, [slots - 1, lanes, sizes.hiddenSize]);
  const anchor = gatherRows(head.embedding, root);
  const past = lane.declarePast(sizes);
  const angles = (name: string): Tensor =>
    reshape(input(name, [slots, lanes, sizes.headSize / 2]), [
      multiplyDimensions(slots, lanes),
      sizes.headSize / 2,
    ]);
  const [cosine, sine] = [angles('chainCosine'), angles('chainSine')];
  const seen = context.mask.shape.at(-1)!;
  const before = broadcast(input('chainMask', [lanes, 1, 1, seen]), [lanes, 1, slots, seen]);
  const maskOf = (isCausal: boolean): Tensor =>
    concatenate([before, broadcast(slotMask(slots, isCausal), [lanes, 1, slots, slots])], -1);
  let hidden = lane.joinLanes(slots === 1 ? anchor : concatenate([anchor, masks], 0));
  for (let layer = 0; layer < sizes.layerCount; layer++) {
    const own = { cosine, sine, mask: maskOf(head.isCausal[layer]!), lanes };
    hidden = runLayer(hidden, layerName(head, layer), sizes, own, {
      past: past[layer],
      earlier: rows[layer],
    }).hidden;
  }
  const features = lane.partLanes(finish(head, hidden), slots);
  return {
    features: slice(features, 0, head.firstSlot), // [level, lanes, hidden]
    root, // [1, lanes]
    state: firstState(head, slice(features, 0, 0, 1), embedPrevious(head, root)), // [1, lanes, rank]
    rows: lane.stackRows(rows, sizes), // new rows of the cache
  };
}

const finish = ({ scope, sizes }: BlockHead, hidden: Tensor): Tensor =>
  normalise(hidden, `${scope}norm`, sizes);

function slotMask(slots: number, isCausal: boolean): Tensor {
  const values = Array.from({ length: slots * slots }, (_, at) =>
    isCausal && at % slots > Math.floor(at / slots) ? blocked : 0,
  );
  return constant(values, [slots, slots]);
}

/**
 * Teacher-forced blocks behind every root of a text at once. The slots lie one behind another along the position axis; a root's
 * slots see the true rows up to the root, and of each other slot only the row of the same root.
 */
export function draftBlocks(head: BlockHead, teacher: TeacherForcing, depth: number): DraftedLogits {
  const { sizes, slots, firstSlot, markov } = head;
  const { context, past, firstRow } = teacher;
  const states = dropLast(teacher.taps!, 1);
  const anchors = dropFirst(dropFirst(teacher.embedWith(head.embedding), 1), firstRow);
  const [batch, roots, hiddenSize] = anchors.shape as [Dimension, Dimension, number];
  const known = subtractDimensions(context.cosine.shape[0]!, 1);
  const cutRows = (x: Tensor, first: Dimension): Tensor => slice(x, 0, first, known);
  const rows = readContext(head, states, {
    cosine: cutRows(context.cosine, 0),
    sine: cutRows(context.sine, 0),
  });
  const ofRoots = { cosine: cutRows(context.cosine, firstRow), sine: cutRows(context.sine, firstRow) };
  const turned = Array.from({ length: slots }, (_, slot) => moveAngles(ofRoots, head.rotary, slot + 1));
  const angles = {
    cosine: concatenate(
      turned.map(({ cosine }) => cosine),
      0,
    ),
    sine: concatenate(
      turned.map(({ sine }) => sine),
      0,
    ),
  };
  const columns = subtractDimensions(context.mask.shape.at(-1)!, 1);
  const mask = slice(slice(context.mask, -2, firstRow, known), -1, 0, columns);
  const masks = broadcast(head.mask, [batch, multiplyDimensions(slots - 1, roots), hiddenSize]);
  let hidden = slots === 1 ? anchors : concatenate([anchors, masks], 1);
  for (let layer = 0; layer < sizes.layerCount; layer++) {
    const name = layerName(head, layer);
    const normed = normalise(hidden, `${name}.input_layernorm`, sizes);
    const attended = attendBlocks(head, normed, layer, { angles, mask, roots, past, rows });
    const middle = add(hidden, attended);
    const after = normalise(middle, `${name}.post_attention_layernorm`, sizes);
    hidden = add(middle, feedForward(after, `${name}.mlp`, sizes));
  }
  const features = finish(head, hidden);
  const before = markov && teacher.embedWith(markov.table);
  const firstPrevious = before && dropFirst(dropFirst(before, 1), firstRow);
  let state = firstState(head, sliceSlot(features, 0, roots), firstPrevious);
  const levels = Array.from({ length: depth }, (_, level) => {
    const own = dropLast(sliceSlot(features, firstSlot + level, roots), level);
    const previous = before && dropFirst(dropFirst(before, 1 + level), firstRow);
    const scored = scoreLevel(head, own, previous, state);
    state = scored.state && dropLast(scored.state, 1);
    return { logits: scored.logits, confidence: head.confidence?.(own, previous) };
  });
  return {
    logits: levels.map(({ logits }) => logits),
    confidences: levels.flatMap(({ confidence }) => confidence ?? []),
    rows,
  };
}

interface TeacherForcedBlocks {
  readonly angles: Angles; // [slot * root, headSize / 2]
  readonly mask: Tensor; // [root, past + position]
  readonly roots: Dimension;
  readonly past: readonly KeyValueRows[] | undefined; // [layer]
  readonly rows: readonly KeyValueRows[]; // [layer]
}

const sliceSlot = (x: Tensor, slot: number, roots: Dimension): Tensor =>
  slice(x, 1, multiplyDimensions(slot, roots), multiplyDimensions(slot + 1, roots));

/** x [batch, slot * root, hidden] */
function attendBlocks(
  { scope, sizes, slots, isCausal }: BlockHead,
  x: Tensor,
  layer: number,
  { angles, mask, roots, past, rows }: TeacherForcedBlocks,
): Tensor {
  const { headCount, keyValueHeadCount, headSize, hiddenSize, cacheType } = sizes;
  const name = `${scope}layers.${layer}.self_attn`;
  const queries = projectQueries(x, name, sizes, angles);
  const { keys, values } = projectRows(x, name, sizes, angles);
  const diagonals = Array.from({ length: slots }, (_, slot) => ({
    kind: 'diagonal' as const,
    keys: sliceSlot(keys, slot, roots),
    values: sliceSlot(values, slot, roots),
  }));
  const before = past?.[layer];
  const mixed = Array.from({ length: slots }, (_, slot) =>
    attention(
      sliceSlot(queries, slot, roots),
      [
        ...(before === undefined ? [] : [{ kind: 'shared' as const, ...before }]),
        { kind: 'own', ...rows[layer]! },
        ...(isCausal[layer] === true ? diagonals.slice(0, slot + 1) : diagonals),
      ],
      mask,
      { heads: headCount, keyValueHeads: keyValueHeadCount, scale: 1 / Math.sqrt(headSize), cacheType },
    ),
  );
  const width = headCount * headSize;
  const joined = reshape(concatenate(mixed, 1), [...x.shape.slice(0, 2), width]);
  return project(joined, `${name}.o_proj`, width, hiddenSize, sizes.outputBias);
}

/** Angles some positions further, beyond the end of the text too: a rotation of each pair. [position, headSize / 2] */
function moveAngles({ cosine, sine }: Angles, rotary: RotaryTable, positions: number): Angles {
  const still = rotary.anglesAt(Int32Array.of(0)).cosine[0]!; // a factor that both are scaled by
  const moved = rotary.anglesAt(Int32Array.of(positions));
  const turn = (values: Float32Array): Tensor =>
    constant(
      Array.from(values, (value) => value / still),
      [values.length],
    );
  const [byCosine, bySine] = [turn(moved.cosine), turn(moved.sine)];
  return {
    cosine: subtract(multiply(cosine, byCosine), multiply(sine, bySine)),
    sine: add(multiply(sine, byCosine), multiply(cosine, bySine)),
  };
}
