/**
 * The common beginning of several prompts, read once. Answers fork it and read its rows in place (model/cache/shared-
 * prefix.ts).
 */
import type { Drafter } from '../draft/drafter.js';
import type { CausalModel } from '../model/causal-model.js';
import type { KvCache } from '../model/cache/kv-cache.js';
import type { RowBuffer } from '../runtime/row-buffer.js';
import type { PrefillOptions } from './prefill.js';
import { prefill } from './prefill.js';

export interface ReadPrefix {
  readonly tokens: Int32Array;
  /** Never written: fork it. */
  readonly cache: KvCache;
  /** Target states for the drafter. [token, width] */
  readonly states: RowBuffer | undefined;
}

/** If aborted, holds what was read so far. */
export async function readPrefix(
  model: CausalModel,
  { reads, taps }: Pick<Drafter, 'reads' | 'taps'>,
  tokenIds: readonly number[],
  { scheduler, signal }: Pick<PrefillOptions, 'scheduler' | 'signal'> = {},
): Promise<ReadPrefix> {
  const cache = model.createCache();
  const parts: RowBuffer[] = [];
  if (tokenIds.length > 0) {
    await prefill(model, cache, tokenIds, {
      want: reads === 'tokens' ? [] : [reads],
      ...{ taps, scheduler, signal },
      onChunk(_, result) {
        if (reads !== 'tokens') parts.push(result[reads]!);
      },
    });
  }
  const states = parts[0] && model.runtime.allocate(cache.length, parts[0].width);
  let filled = 0;
  for (const part of parts) {
    states?.write(part, filled);
    filled += part.rowCount;
    part.free();
  }
  return { tokens: Int32Array.from(tokenIds.slice(0, cache.length)), cache, states };
}
