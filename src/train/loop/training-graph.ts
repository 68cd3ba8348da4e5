/**
 * What one batch of training looks like as inputs of a graph: tokens of texts, what each counts and where in its text it
 * stands, and a mask by which each text sees itself alone. The target is frozen, its features and taps come in from
 * teacher-states.ts.
 */
import { symbol } from '../../graph/dimension.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { input } from '../../graph/operations/leaves.js';
import type { Tensor } from '../../graph/tensor.js';
import { requireGraph } from '../../draft/reading/checks.js';
import type { DraftedLogits, Drafter } from '../../draft/drafter.js';
import type { CausalModel } from '../../model/causal-model.js';
import type { AttentionContext } from '../../model/decoder-layer.js';
import type { RotaryTable } from '../../model/rotary/rotary.js';
import type { NamedValues } from '../../runtime/program.js';
import { float32 } from '../../runtime/program.js';
import type { TextBatch } from '../data/text-batch.js';
import { maskTexts } from '../data/text-batch.js';

export interface Pair {
  readonly target: CausalModel;
  readonly drafter: Drafter;
}

export const batch = symbol('batch');
export const row = symbol('row');

/** Inputs that a batch gives to every program. */
export const tokensInput = (): Tensor => input('tokens', [batch, row], 'int32');

export const weightsInput = (): Tensor => input('weights', [batch, row]);

/** Of each token in its own text. */
export const positionsInput = (): Tensor => input('positions', [batch, row]);

export const featuresInput = ({ configuration }: CausalModel): Tensor =>
  input('features', [batch, row, configuration.hiddenSize]);

/** Drafts of all positions along the texts. */
export function draftAlong({ target, drafter }: Pair, depth: number, features: Tensor): DraftedLogits {
  const graph = requireGraph(drafter);
  const { hiddenSize } = target.configuration;
  const tokens = tokensInput();
  const taps =
    drafter.taps.length === 0 ? undefined : input('taps', [batch, row, drafter.taps.length * hiddenSize]);
  return graph.draftLogits(
    {
      ...{ features, taps, firstRow: 0, past: undefined },
      embedWith: (table) => gatherRows(table, tokens),
      context: declareContext('draft.', graph.attention?.sizes.headSize ?? 2),
    },
    depth,
  );
}

export function declareContext(prefix: string, headSize: number): AttentionContext {
  const angles = (name: string): Tensor => input(`${prefix}${name}`, [row, headSize / 2]);
  return { cosine: angles('cosine'), sine: angles('sine'), mask: input('mask', [batch, row, row]) };
}

/** Values for what declareContext asks for. */
export function contextInputs(
  prefix: string,
  rotary: RotaryTable,
  batch: TextBatch,
  window?: number,
): NamedValues {
  const [count, length] = batch.shape;
  const { cosine, sine } = rotary.anglesAt(Int32Array.from({ length }, (_, position) => position));
  const shape = [length, cosine.length / length];
  return {
    mask: float32(maskTexts(batch, window), [count, length, length]),
    [`${prefix}cosine`]: float32(cosine, shape),
    [`${prefix}sine`]: float32(sine, shape),
  };
}
