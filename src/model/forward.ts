/** One pass of a model over new rows: what is asked, what comes back, and what is refused. */
import { MistletoeError } from '../core/errors.js';
import type { RowBuffer } from '../runtime/row-buffer.js';
import type { ModelConfiguration } from './configuration.js';
import type { KvCache } from './cache/kv-cache.js';
import type { PassScheduler } from './lanes/pass-scheduler.js';

/** `scores` are logits that stay with the runtime. */
export type ForwardOutput = 'logits' | 'scores' | 'argmax' | 'features' | 'taps';

export interface ForwardRequest {
  readonly tokens: Int32Array; // [row]
  readonly cache: KvCache;
  /** [row] a tree's parents among the new rows, -1 directly behind the past; absent for a chain. */
  readonly parents?: Int32Array;
  /** The rows whose logits or argmax are wanted; all by default. */
  readonly select?: Int32Array;
  readonly want: readonly ForwardOutput[];
  /** Layers before which the residual stream is tapped, where `taps` are wanted. */
  readonly taps?: readonly number[];
  /** Where passes of several sequences become one; alone unless given. */
  readonly scheduler?: PassScheduler | undefined;
}

export interface ForwardResult {
  /** Keys and values of the new rows, not yet in the cache. [slot, row, head, size] */
  readonly rows: RowBuffer;
  readonly logits?: Float32Array; // [selected, vocabulary]
  readonly argmax?: Int32Array; // [selected]
  readonly scores?: KeptScores;
  readonly features?: RowBuffer; // [row, hidden]
  /** The tapped residual streams side by side. [row, taps * hidden] */
  readonly taps?: RowBuffer;
}

/** Logits that stayed with the runtime, and whether they are numbers is not known yet. */
export interface KeptScores {
  readonly rows: RowBuffer; // [selected, vocabulary]
  /** Gives the rows back, and refuses sums of them that are no numbers. [selected] */
  release(totals: Float32Array): void;
}

/** An argmax of scores that are no numbers is any token, and what is decoded from it would look like an answer. */
export function requireNumbers(
  name: string,
  totals: Float32Array, // [selected] sums of scores
  { tokens, cache, parents, select }: ForwardRequest,
): void {
  const selected = totals.findIndex((total) => !Number.isFinite(total));
  if (selected < 0) return;
  const row = select?.[selected] ?? selected;
  const read = cache.length + (parents === undefined ? row + 1 : countPath(parents, row));
  throw new MistletoeError(
    'checkpoint',
    `${name} gives scores that are no numbers after ${read} ${read === 1 ? 'token' : 'tokens'} (their sum is ${totals[selected]!}; token ${tokens[row]!} was the last).`,
    {
      hint: 'Its weights hold NaN or infinite values: the checkpoint is damaged, or overflowed when it was written as float16. Download it again, or take it in bfloat16 or float32.',
    },
  );
}

/** Nodes from the tree's root to this one, both counted. */
function countPath(parents: Int32Array, node: number): number {
  let count = 0;
  for (let current = node; current >= 0; current = parents[current] ?? -1) count += 1;
  return count;
}

export function contextError(
  needed: number,
  { contextLength, contextOrigin }: Pick<ModelConfiguration, 'contextLength' | 'contextOrigin'>,
): MistletoeError {
  return new MistletoeError(
    'context',
    `The sequence needs ${needed} positions; the model's context has ${contextLength} (${contextOrigin}).`,
    {
      hint: 'Shorten the prompt or ask for fewer new tokens.',
    },
  );
}
