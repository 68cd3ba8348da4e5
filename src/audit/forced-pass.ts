/**
 * Target and drafter along the clean answer, as one graph: what both say about every answer token when the prompt
 * carries a suffix. The rows are
 *
 *   [last prompt token | suffix | template's tail | answer without its last token]
 *
 * behind a past that holds everything before. The last prompt token is among the rows because drafters pair its
 * state with the first suffix token. Row `lead + j` predicts answer token j.
 */
import { addDimensions, symbol } from '../graph/dimension.js';
import type { Dimension } from '../graph/dimension.js';
import type { Tensor } from '../graph/tensor.js';
import { matmul } from '../graph/operations/contraction.js';
import { gatherRows } from '../graph/operations/indexing.js';
import { input } from '../graph/operations/leaves.js';
import { concatenate, reshape, slice } from '../graph/operations/shaping.js';
import type { Drafter } from '../draft/drafter.js';
import type { CausalModel } from '../model/causal-model.js';
import { embeddingTable, projectToVocabulary, runDecoder } from '../model/decoder.js';
import type { AttentionContext, KeyValueRows } from '../model/decoder-layer.js';
import type { CacheSizes } from '../model/kv-cache.js';

export interface PassLayout {
  readonly suffixLength: number;
  /** Tokens between suffix and answer: the template's tail. */
  readonly tailLength: number;
  /** Answer positions that are looked at. */
  readonly window: number;
}

/** Rows before the first one that predicts the answer. */
export function leadRows({ suffixLength, tailLength }: PassLayout): number {
  return suffixLength + tailLength;
}

export function countRows(layout: PassLayout): number {
  return leadRows(layout) + layout.window;
}

/** Looks the tokens of all rows up in a table [vocabulary, width]. */
export type EmbedWith = (table: Tensor) => Tensor; // [batch, row, width]

/** Token ids for every row: many candidates at once. */
export function embedIds(rows: number, batch: Dimension): EmbedWith {
  const tokens = input('tokens', [batch, rows], 'int32');
  return (table) => gatherRows(table, tokens);
}

/** One-hot rows for the suffix, so that the loss has a gradient with respect to every token choice. */
export function embedOneHotSuffix(layout: PassLayout, oneHot: Tensor /* [suffix, vocabulary] */): EmbedWith {
  const rest = input('rest', [layout.tailLength + layout.window - 1], 'int32');
  const first = input('first', [1], 'int32');
  return (table) => {
    const embedded = concatenate(
      [gatherRows(table, first), matmul(oneHot, table), gatherRows(table, rest)],
      0,
    );
    return reshape(embedded, [1, ...embedded.shape]);
  };
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
  readonly layout: PassLayout;
  readonly embedWith: EmbedWith;
  /** How many levels deep to draft from every answer position. */
  readonly depth: number;
}

export function buildForcedPass({ target, drafter, layout, embedWith, depth }: PassParts): ForcedPass {
  const { configuration, scope } = target;
  const lead = leadRows(layout);
  const rows = countRows(layout);
  const past = symbol('past');
  const mask = input('mask', [rows, addDimensions(past, rows)]);
  const decoded = runDecoder(configuration, scope, embedWith(embeddingTable(configuration, scope)), {
    context: declareAngles('', configuration.headSize, rows, mask),
    past: declareCache('past', configuration),
    taps: drafter?.taps ?? [],
  });
  const targetLogits = projectToVocabulary(configuration, scope, slice(decoded.features, 1, lead));
  if (drafter === undefined || depth === 0) return { targetLogits, draftLogits: [] };
  const { attention } = drafter.graph;
  const { logits } = drafter.graph.draftLogits(
    {
      features: decoded.features,
      taps: decoded.taps.length === 0 ? undefined : concatenate(decoded.taps, -1),
      embedWith,
      firstRow: lead,
      context: declareAngles('draft.', attention?.sizes.headSize ?? 2, rows, mask),
      past: attention === undefined ? undefined : declareCache('draftPast', attention.sizes),
    },
    depth,
  );
  return { targetLogits, draftLogits: logits };
}

function declareAngles(prefix: string, headSize: number, rows: number, mask: Tensor): AttentionContext {
  const angles = (name: string): Tensor => input(`${prefix}${name}`, [rows, headSize / 2]);
  return { cosine: angles('cosine'), sine: angles('sine'), mask };
}

function declareCache(name: string, sizes: CacheSizes): readonly KeyValueRows[] {
  const shape = [symbol('past'), sizes.keyValueHeadCount, sizes.headSize];
  return Array.from({ length: sizes.layerCount }, (_, layer) => ({
    keys: input(`${name}${2 * layer}`, shape),
    values: input(`${name}${2 * layer + 1}`, shape),
  }));
}
