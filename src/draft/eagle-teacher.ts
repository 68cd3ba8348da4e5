/**
 * An EAGLE draft along known tokens, as a graph. Depth 0 pairs the target's own states with the next tokens; every
 * further depth feeds the features predicted one depth before, and row t of it attends to the true rows up to t and to
 * its own earlier depths: exactly what a chain drafted at t would have seen (the "training-time test" of EAGLE-3,
 * arXiv 2503.01840).
 */
import type { AttentionContext, KeyValueRows } from '../model/decoder-layer.js';
import type { Tensor } from '../graph/tensor.js';
import { slice } from '../graph/operations/shaping.js';
import { subtractDimensions } from '../graph/dimension.js';
import type { DraftedLogits, TeacherForcing } from './drafter.js';
import type { EagleHead } from './eagle-session.js';
import { dropFirst, dropLast } from './positions.js';

export function draftEagleLogits(
  head: EagleHead,
  states: Tensor,
  teacher: TeacherForcing,
  depth: number,
): DraftedLogits {
  const embeddings = teacher.embedWith(head.embedding);
  const past = teacher.past?.[0];
  const logits: Tensor[] = [];
  const diagonal: KeyValueRows[] = [];
  let first: KeyValueRows | undefined;
  let predicted: Tensor | undefined;
  let features = head.fuse(dropLast(states, 1));
  for (let level = 0; level < depth; level++) {
    const cut = level + 1; // rows that end too early for this level, counted from the positions given
    const context = cutContext(teacher.context, level, cut);
    const tokens = dropFirst(embeddings, 1 + level);
    const trim = (rows: KeyValueRows): KeyValueRows => ({
      keys: dropLast(rows.keys, level),
      values: dropLast(rows.values, level),
    });
    const step = head.step(features, tokens, context, {
      past,
      ...(first === undefined
        ? {}
        : {
            drafted: {
              rows: trim(first),
              diagonal: diagonal.map((rows, index) => cutRows(rows, level - 1 - index)),
            },
          }),
    });
    predicted ??= step.features;
    if (first === undefined) first = step.rows;
    else diagonal.push(step.rows);
    logits.push(head.score(dropFirst(step.features, teacher.firstRow)));
    features = dropLast(step.features, 1);
  }
  return { logits, features: predicted!, rows: [first!] };
}

function cutRows(rows: KeyValueRows, count: number): KeyValueRows {
  return { keys: dropLast(rows.keys, count), values: dropLast(rows.values, count) };
}

/** Angles of positions t + level, and the mask of the true rows, for the rows that this level has. */
function cutContext({ cosine, sine, mask }: AttentionContext, level: number, cut: number): AttentionContext {
  const shift = (x: Tensor): Tensor => slice(x, 0, level, subtractDimensions(x.shape[0]!, cut - level));
  const rows = subtractDimensions(mask.shape.at(-2)!, cut);
  const columns = subtractDimensions(mask.shape.at(-1)!, cut);
  return { cosine: shift(cosine), sine: shift(sine), mask: slice(slice(mask, -2, 0, rows), -1, 0, columns) };
}
