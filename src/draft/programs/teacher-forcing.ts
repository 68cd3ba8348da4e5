/**
 * Teacher-forced drafts, for gradients and training. A row sees the true rows up to its root and its own earlier
 * levels: what a chain drafted there would see (the "training-time test" of EAGLE-3, arXiv 2503.01840).
 */
import { subtractDimensions } from '../../graph/dimension.js';
import { add } from '../../graph/operations/elementwise.js';
import { slice } from '../../graph/operations/shaping.js';
import type { Tensor } from '../../graph/tensor.js';
import type { AttentionContext, DraftedRows, KeyValueRows } from '../../model/decoder.js';
import type { DraftedLogits, TeacherForcing } from '../drafter.js';
import { fillWithMasks, type AttentionHead } from './attention-head.js';
import { dropFirst, dropLast } from './states.js';

/**
 * Level 0 reads the true rows. Further levels read the features predicted one level before, or masks. A head of states
 * pairs the state at t with token t + 1, so the last state has no row; in one of tokens alone, the root is the row t + 1.
 */
export function draftTeacherForced(
  head: AttentionHead,
  teacher: TeacherForcing,
  depth: number,
): DraftedLogits {
  const { context, past, firstRow } = teacher;
  const { mask, window } = head;
  const states = statesOf(head, teacher);
  const lacking = states === undefined ? 0 : 1;
  const embeddings = teacher.embedWith(head.embedding);
  const fused = states && head.fuse(dropLast(states, 1));
  const own = contextOf(context, 0, { lacking, first: 0, window });
  const first = head.step(dropFirst(embeddings, lacking), fused, own, { past });
  const rootLogits = head.score(dropFirst(dropFirst(first.features, 1 - lacking), firstRow));
  // Without features and masks, the model sees exactly the text: every level reads the same pass.
  if (states === undefined && mask === undefined)
    return {
      logits: Array.from({ length: depth }, (_, level) => dropFirst(rootLogits, level)),
      rows: first.rows,
    };
  const logits = [rootLogits];
  const earlier: (readonly KeyValueRows[])[] = []; // [level - 1][layer]
  let features = dropLast(first.features, 1);
  for (let level = 1; level < depth; level++) {
    const tokens = dropFirst(embeddings, 1 + level);
    const fed =
      mask === undefined
        ? { embeddings: tokens, features }
        : fillWithMasks(head, mask, tokens.shape.slice(0, 2));
    const behindAllRoots = states === undefined ? 0 : level;
    const seen = first.rows.map((rows) => cutRows(rows, behindAllRoots));
    const drafted = seeEarlierLevels(seen, earlier, window);
    const behind = contextOf(context, level, { lacking, first: 1 - lacking, window });
    const step = head.step(fed.embeddings, fed.features, behind, { past, drafted });
    earlier.push(step.rows);
    logits.push(head.score(dropFirst(step.features, firstRow)));
    features = dropLast(step.features, 1);
  }
  return { logits, features: states && first.features, rows: first.rows };
}

function statesOf({ reads }: AttentionHead, { features, taps }: TeacherForcing): Tensor | undefined {
  if (reads === 'tokens') return undefined;
  return reads === 'taps' ? taps : features;
}

interface RowPlaces {
  /** Rows at the end of the text that the head has none for: 0 or 1. */
  readonly lacking: number;
  readonly first: number;
  readonly window: number | undefined;
}

/**
 * Of the rows that stand `level` behind the roots from `first` on. They see what their roots see, within their own
 * window. For a head of states, true rows behind all roots are cut; for one of tokens they are masked.
 */
function contextOf(
  { cosine, sine, mask }: AttentionContext,
  level: number,
  { lacking, first, window }: RowPlaces,
): AttentionContext {
  const cut = (x: Tensor, axis: number, from: number, behind: number): Tensor =>
    slice(x, axis, from, subtractDimensions(x.shape.at(axis)!, behind));
  const roots = cut(mask, -2, first, lacking + level);
  const isMoved = window !== undefined && level > 0;
  const seen = isMoved ? add(roots, cut(mask, -2, first + level, lacking)) : roots;
  return {
    cosine: cut(cosine, 0, first + level, lacking),
    sine: cut(sine, 0, first + level, lacking),
    mask: lacking === 0 ? seen : cut(seen, -1, 0, lacking + level),
  };
}

/**
 * What the rows of the next level see, in each layer: true rows, and of every earlier level only their own row, if that
 * is within the window.
 */
function seeEarlierLevels(
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

const cutRows = ({ keys, values }: KeyValueRows, count: number): KeyValueRows => ({
  keys: dropLast(keys, count),
  values: dropLast(values, count),
});
