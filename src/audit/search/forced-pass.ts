/**
 * Target and drafter along the clean answer, as one graph. The rows are
 * [last token before | suffix | template's tail | answer without its last token]
 * after a past with everything earlier. The token before the suffix is a row because drafters pair its state with the
 * first suffix token. The last `window` rows predict the answer. If candidates share the first suffix tokens, those
 * move into the past: fewer rows, same graph.
 */
import { type Dimension, addDimensions, subtractDimensions, symbol } from '../../graph/dimension.js';
import { type Tensor, constant, input } from '../../graph/tensor.js';
import { matmul } from '../../graph/operations/contraction.js';
import { add, multiply } from '../../graph/operations/elementwise.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { concatenate, reshape, slice } from '../../graph/operations/shaping.js';
import type { Drafter } from '../../draft/drafter.js';
import type { CausalModel } from '../../model/causal-model.js';
import { embeddingTable, projectToVocabulary, runDecoder } from '../../model/decoder.js';
import type { AttentionContext, KeyValueRows } from '../../model/decoder.js';
import { declareKeysAndValues } from '../../model/lanes/lane-graph.js';
import type { CacheSizes } from '../../model/cache/cache-pool.js';

export const row = symbol('row');

export type EmbedWith = (table: Tensor) => Tensor; // [batch, row, width]

export function embedIds(): EmbedWith {
  const tokens = input('tokens', [symbol('batch'), row], 'int32');
  return (table) => gatherRows(table, tokens);
}

/** One-hot rows for the suffix, for gradients with respect to every token choice. */
export function embedOneHotSuffix(oneHot: Tensor /* [suffix, vocabulary] */): EmbedWith {
  const first = input('first', [1], 'int32');
  const suffixLength = oneHot.shape[0]!;
  const rest = input('rest', [subtractDimensions(subtractDimensions(row, suffixLength), 1)], 'int32');
  return (table) => {
    const embedded = concatenate(
      [gatherRows(table, first), matmul(fitColumns(oneHot, table), table), gatherRows(table, rest)],
      0,
    );
    return reshape(embedded, [1, ...embedded.shape]);
  };
}

/** One sequence in several copies: gradients with respect to the zero `shift` tell the copies apart. */
export function embedCopies(shift: Tensor /* [batch, row, hidden] */): EmbedWith {
  const tokens = input('tokens', [row], 'int32');
  return (table) => add(gatherRows(table, tokens), shift);
}

/** A draft model's table may be padded differently; the common ids come first. */
function fitColumns(oneHot: Tensor, table: Tensor): Tensor {
  const [rows, columns] = oneHot.shape as [number, number];
  const wanted = table.shape[0] as number;
  if (wanted === columns) return oneHot;
  if (wanted < columns) return slice(oneHot, 1, 0, wanted);
  const missing = wanted - columns;
  return concatenate([oneHot, constant(new Array<number>(rows * missing).fill(0), [rows, missing])], 1);
}

export interface ForcedPass {
  /** Row j predicts answer token j. [batch, window, vocabulary] */
  readonly targetLogits: Tensor;
  /** [depth] -> row j predicts answer token j + 1 + depth. [batch, window - 1 - depth, draft vocabulary] */
  readonly draftLogits: readonly Tensor[];
}

export interface PassParts {
  readonly target: CausalModel;
  readonly drafter?: Drafter | undefined;
  readonly window: Dimension;
  readonly embedWith: EmbedWith;
  /** Draft levels from every answer position. */
  readonly depth: number;
  /** Divides the logits; 0 and 1 have no effect. */
  readonly temperature?: number | undefined;
}

export function buildForcedPass(parts: PassParts): ForcedPass {
  const { target, drafter, window, embedWith, depth, temperature = 0 } = parts;
  const scaled = (logits: Tensor): Tensor =>
    temperature === 0 || temperature === 1 ? logits : multiply(logits, 1 / temperature);
  const { configuration, scope } = target;
  const lead = subtractDimensions(row, window);
  const mask = input('mask', [row, addDimensions(symbol('past'), row)]);
  const decoded = runDecoder(configuration, scope, embedWith(embeddingTable(configuration, scope)), {
    context: declareAngles('', configuration.headSize, mask),
    past: declareCache('past', configuration),
    taps: (drafter?.lead ?? drafter)?.taps ?? [],
  });
  const targetLogits = scaled(projectToVocabulary(configuration, scope, slice(decoded.features, 1, lead)));
  const graph = drafter?.graph;
  if (graph === undefined || depth === 0) return { targetLogits, draftLogits: [] };
  const { attention } = graph;
  const { logits } = graph.draftLogits(
    {
      features: decoded.features,
      taps: decoded.taps.length === 0 ? undefined : concatenate(decoded.taps, -1),
      embedWith,
      firstRow: lead,
      context: declareAngles('draft.', attention?.sizes.headSize ?? 2, mask),
      past: attention === undefined ? undefined : declareCache('draftPast', attention.sizes),
    },
    depth,
  );
  return { targetLogits, draftLogits: logits.map(scaled) };
}

function declareAngles(prefix: string, headSize: number, mask: Tensor): AttentionContext {
  const angles = (name: string): Tensor => input(`${prefix}${name}`, [row, headSize / 2]);
  return { cosine: angles('cosine'), sine: angles('sine'), mask };
}

function declareCache(name: string, sizes: CacheSizes): readonly KeyValueRows[] {
  return declareKeysAndValues(name, [symbol('past'), sizes.keyValueHeadCount, sizes.headSize], sizes);
}
