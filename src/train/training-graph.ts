/**
 * What one batch of training looks like as inputs of a graph. Rows are positions of texts, each text padded at its end:
 * attention is causal, so that no row of the text sees the padding, and no loss looks at it. The target is frozen, its
 * features and taps come in from teacher-states.ts.
 */
import { symbol } from '../graph/dimension.js';
import { gatherRows } from '../graph/operations/indexing.js';
import { input } from '../graph/operations/leaves.js';
import type { Tensor } from '../graph/tensor.js';
import { requireGraph } from '../draft/checks.js';
import type { DraftedLogits, Drafter } from '../draft/drafter.js';
import type { CausalModel } from '../model/causal-model.js';
import type { AttentionContext } from '../model/decoder-layer.js';
import { blocked } from '../model/attention-inputs.js';
import type { RotaryTable } from '../model/rotary.js';
import type { NamedValues, TensorValue } from '../runtime/program.js';
import { float32 } from '../runtime/program.js';

export interface Pair {
  readonly target: CausalModel;
  readonly drafter: Drafter;
}

/** Texts of one batch, padded at their ends. */
export interface TextBatch {
  readonly tokens: Int32Array; // [batch, position]
  /** 1 where a token is to be learnt, 0 in prompts and padding. */
  readonly weights: Float32Array; // [batch, position]
  readonly shape: readonly [number, number];
  /** One for each text, by which its states are kept. */
  readonly exampleIds?: readonly string[];
}

export const batch = symbol('batch');
export const row = symbol('row');

/** Inputs that a batch gives to every program. */
export const tokensInput = (): Tensor => input('tokens', [batch, row], 'int32');

export const weightsInput = (): Tensor => input('weights', [batch, row]);

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
  return { cosine: angles('cosine'), sine: angles('sine'), mask: input('mask', [row, row]) };
}

/** Values for what declareContext asks for. */
export function contextInputs(
  prefix: string,
  rotary: RotaryTable | undefined,
  length: number,
  window?: number,
): NamedValues {
  const values: Record<string, TensorValue> = { mask: causalMask(length, window) };
  if (rotary === undefined) return values;
  const { cosine, sine } = rotary.anglesAt(Int32Array.from({ length }, (_, position) => position));
  const shape = [length, cosine.length / length];
  values[`${prefix}cosine`] = float32(cosine, shape);
  values[`${prefix}sine`] = float32(sine, shape);
  return values;
}

function causalMask(length: number, window = Infinity): TensorValue {
  const mask = new Float32Array(length * length);
  for (let position = 0; position < length; position++) {
    const start = position * length;
    mask.fill(blocked, start + position + 1, start + length);
    if (position >= window) mask.fill(blocked, start, start + position - window + 1);
  }
  return float32(mask, [length, length]);
}
