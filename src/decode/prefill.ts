/** Reads the prompt in chunks to bound the size of attention scores. */
import { MistletoeError } from '../core/errors.js';
import type { Drafter } from '../draft/drafter.js';
import type { KvCache } from '../model/cache/kv-cache.js';
import type { CausalModel } from '../model/causal-model.js';
import { contextError, type ForwardOutput, type ForwardResult } from '../model/forward.js';
import type { PassScheduler } from '../model/lanes/lane-program.js';
import type { RowBuffer } from '../runtime/row-buffer.js';

/**
 * The common beginning of several prompts, read once. Answers fork it and read its rows in place
 * (model/cache/cache-pool.ts).
 */
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
      taps,
      scheduler,
      signal,
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

export const prefillChunk = 256;

export interface PrefillOptions {
  readonly chunk?: number | undefined;
  readonly want: readonly ForwardOutput[];
  readonly taps?: readonly number[] | undefined;
  readonly scheduler?: PassScheduler | undefined;
  /** Stops before the next chunk; the cache keeps what was read. */
  readonly signal?: AbortSignal | undefined;
  /** Logits and argmax are those of the chunk's last token. */
  readonly onChunk?: ((tokens: Int32Array, result: ForwardResult) => Promise<void> | void) | undefined;
}

/** Returns the outputs of the last chunk; undefined if aborted. */
export async function prefill(
  model: CausalModel,
  cache: KvCache,
  tokenIds: readonly number[],
  { chunk = prefillChunk, want, taps = [], scheduler, signal, onChunk }: PrefillOptions,
): Promise<ForwardResult | undefined> {
  const { contextLength, vocabularySize } = model.configuration;
  if (tokenIds.length === 0)
    throw new MistletoeError('text', 'The prompt has no tokens; at least one was expected.');
  const unknown = tokenIds.find((id) => id < 0 || id >= vocabularySize);
  if (unknown !== undefined) {
    throw new MistletoeError(
      'text',
      `The prompt holds token id ${unknown}; the model knows ${vocabularySize} tokens.`,
      { hint: 'Use the tokenizer that belongs to the model.' },
    );
  }
  if (cache.length + tokenIds.length > contextLength)
    throw contextError(cache.length + tokenIds.length, model.configuration);
  let last: ForwardResult | undefined;
  for (let start = 0; start < tokenIds.length; start += chunk) {
    if (signal?.aborted === true) return undefined;
    const tokens = Int32Array.from(tokenIds.slice(start, start + chunk));
    const select = Int32Array.of(tokens.length - 1);
    last = await model.forward({ tokens, cache, select, want, taps, scheduler });
    cache.appendAll(last.rows, tokens.length);
    last.rows.free();
    await onChunk?.(tokens, last);
  }
  return last;
}
