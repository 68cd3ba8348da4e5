/**
 * Parts of graphs that several sequences run together, one lane each. Inputs and outputs have an axis `lanes` after
 * the row axis, except:
 * mask [lanes, 1, row, prefix + past + row]: also blocks the padding of shorter lanes
 * select [selected, lanes]: rows of the whole batch
 * past* [past, lanes * head, size]: the pool of all lanes
 * prefix* [prefix, head, size]: rows shared by all lanes
 */
import { addDimensions, multiplyDimensions, symbol, type Dimension } from '../../graph/dimension.js';
import { cast } from '../../graph/operations/elementwise.js';
import { gatherRows } from '../../graph/operations/indexing.js';
import { input, type Tensor } from '../../graph/tensor.js';
import { concatenate, reshape } from '../../graph/operations/shaping.js';
import type { CacheSizes } from '../cache/cache-pool.js';
import type { AttentionContext, KeyValueRows } from '../decoder.js';

/** Outputs for other programs, which stay on the device. */
export const residentOutputs: ReadonlySet<string> = new Set([
  'rows',
  'features',
  'states',
  'taps',
  'scores',
  'distributions',
]);

export const lanes = symbol('lanes');
export const row = symbol('row');

/** [row, lanes, width] -> [1, row * lanes, width] */
export function joinLanes(x: Tensor): Tensor {
  return reshape(x, [1, multiplyDimensions(x.shape[0]!, x.shape[1]!), x.shape.at(-1)!]);
}

/** [1, row * lanes, width] -> [row, lanes, width] */
export function partLanes(x: Tensor, rows: Dimension = row, laneCount: Dimension = lanes): Tensor {
  return reshape(x, [rows, laneCount, x.shape.at(-1)!]);
}

/** [1, row * lanes, width] -> [selected, lanes, width] */
export function selectRows(
  x: Tensor,
  count: Dimension = symbol('selected'),
  laneCount: Dimension = lanes,
): Tensor {
  const select = input('select', [count, laneCount], 'int32');
  return gatherRows(reshape(x, x.shape.slice(1)), select);
}

/** With columns for what is read before the past. */
export function declareAttention(
  { headSize }: { headSize: number },
  before: Dimension = 0,
): AttentionContext {
  const angles = (name: string): Tensor =>
    reshape(input(name, [row, lanes, headSize / 2]), [multiplyDimensions(row, lanes), headSize / 2]);
  const seen = addDimensions(before, addDimensions(symbol('past'), row));
  const mask = input('mask', [lanes, 1, row, seen]);
  return { cosine: angles('cosine'), sine: angles('sine'), mask, lanes };
}

/** For one sequence. Columns of the mask are those of the cache's rows that it sees and of the new rows. */
export function declareAttentionAlone({ headSize }: { headSize: number }): AttentionContext {
  const angles = (name: string): Tensor => reshape(input(name, [row, 1, headSize / 2]), [row, headSize / 2]);
  const mask = input('mask', [1, 1, row, symbol('seen')]);
  return { cosine: angles('cosine'), sine: angles('sine'), mask };
}

/** For one sequence: its keys and values head by head, with room for new rows (cache/head-rows.ts). */
export function declareCaches(sizes: CacheSizes): readonly KeyValueRows[] {
  const { keyValueHeadCount, headSize } = sizes;
  return declareKeysAndValues('cache', [1, keyValueHeadCount, symbol('room'), headSize], sizes);
}

export function declarePast(sizes: CacheSizes): readonly KeyValueRows[] {
  const heads = multiplyDimensions(lanes, sizes.keyValueHeadCount);
  return declareKeysAndValues('past', [symbol('past'), heads, sizes.headSize], sizes);
}

export const prefix = symbol('prefix');

export function declarePrefix(sizes: CacheSizes): readonly KeyValueRows[] {
  return declareKeysAndValues('prefix', [prefix, sizes.keyValueHeadCount, sizes.headSize], sizes);
}

/** Inputs with the number of their slot behind the name. [layer] */
export function declareKeysAndValues(
  name: string,
  shape: readonly Dimension[],
  { layerCount, cacheType }: CacheSizes,
): readonly KeyValueRows[] {
  return Array.from({ length: layerCount }, (_, layer) => ({
    keys: input(`${name}${2 * layer}`, shape, cacheType),
    values: input(`${name}${2 * layer + 1}`, shape, cacheType),
  }));
}

/** For KvCache.append. [slot, row, lanes, head, size] */
export function stackRows(
  rows: readonly KeyValueRows[],
  sizes: CacheSizes,
  laneCount: Dimension = lanes,
): Tensor {
  const { keyValueHeadCount, headSize, cacheType } = sizes;
  const stacked = concatenate(
    rows.flatMap(({ keys, values }) => [keys, values]),
    0,
  );
  const kept = cacheType === undefined ? stacked : cast(stacked, cacheType);
  return reshape(kept, [2 * rows.length, row, laneCount, keyValueHeadCount, headSize]);
}
