import { MistletoeError } from '../core/errors.js';
import type { Runtime } from '../runtime/program.js';
import type { RowBuffer } from '../runtime/row-buffer.js';
import { type CacheSizes, countPositionBytes } from './cache/cache-pool.js';
import type { ModelConfiguration } from './configuration.js';
import type { KvCache } from './cache/kv-cache.js';
import type { PassScheduler } from './lanes/lane-program.js';

/** `scores`: logits on the device. */
export type ForwardOutput = 'logits' | 'scores' | 'argmax' | 'features' | 'taps';

export interface ForwardRequest {
  /** [row] In a buffer of the runtime if an earlier program chose them. */
  readonly tokens: Int32Array | RowBuffer;
  readonly cache: KvCache;
  /** [row] -1 directly after the past; absent for a chain. */
  readonly parents?: Int32Array | undefined;
  /** Rows for logits or argmax; default all. */
  readonly select?: Int32Array | undefined;
  readonly want: readonly ForwardOutput[];
  readonly taps?: readonly number[] | undefined;
  readonly scheduler?: PassScheduler | undefined;
  /** Keeps the argmax in the runtime, if the sequence has the pass for itself. Its rows are not to be freed. */
  readonly into?: KeptPass | undefined;
}

type PassRows = Pick<ForwardRequest, 'tokens' | 'parents' | 'select'> & {
  /** Before the pass. */
  readonly cache: Pick<KvCache, 'length'>;
};

/** What a pass over one row leaves in the runtime, always in the same place, for the next pass. */
export interface KeptPass {
  /** The bits of int32. */
  readonly argmax: RowBuffer;
  /** The sum of the scores, which reveals NaN. */
  readonly total: RowBuffer;
  /** Both, to be read at once. */
  readonly chosen: RowBuffer;
  /** Keys and values. */
  readonly rows: RowBuffer;
}

/** In values: kernels write up to 16 bytes at once. */
const totalAt = 4;

export function allocatePass(runtime: Runtime, sizes: CacheSizes): KeptPass {
  const chosen = runtime.allocate(totalAt + 1, 1);
  const rows = runtime.allocate(countPositionBytes(sizes) / 4, 1);
  return { argmax: chosen.rows(0, 1), total: chosen.rows(totalAt, 1), chosen, rows };
}

export function freePass({ chosen, rows }: KeptPass): void {
  chosen.free();
  rows.free();
}

/** Starts reading what the last pass chose: programs that are started later do not change it. */
export async function readChosen(name: string, { chosen }: KeptPass, rows: PassRows): Promise<number> {
  const read = await chosen.read();
  requireNumbers(name, read.subarray(totalAt), rows);
  return new Int32Array(read.buffer)[0]!;
}

export interface ForwardResult {
  /** Not yet in the cache. [slot, row, head, size] */
  readonly rows: RowBuffer;
  readonly logits?: Float32Array | undefined; // [selected, vocabulary]
  readonly argmax?: Int32Array | undefined; // [selected]
  readonly scores?: KeptScores | undefined;
  readonly features?: RowBuffer | undefined; // [row, hidden]
  /** [row, taps * hidden] */
  readonly taps?: RowBuffer | undefined;
}

/** Logits on the device, not yet checked for NaN. */
export interface KeptScores {
  readonly rows: RowBuffer; // [selected, vocabulary]
  /** Frees the rows and refuses NaN sums. [selected] */
  release(totals: Float32Array): void;
}

/** The argmax of NaN is any token and would look like an answer. */
export function requireNumbers(
  name: string,
  totals: Float32Array, // [selected] sums of scores
  { tokens, cache, parents, select }: PassRows,
): void {
  const selected = totals.findIndex((total) => !Number.isFinite(total));
  if (selected < 0) return;
  const row = select?.[selected] ?? selected;
  let read = cache.length + (parents === undefined ? row + 1 : 0);
  for (let node = parents && row; node !== undefined && node >= 0; node = parents![node]) read += 1;
  const last = tokens instanceof Int32Array ? `; token ${tokens[row]!} was the last` : '';
  throw new MistletoeError(
    'checkpoint',
    `${name} gives scores that are no numbers after ${read} ${read === 1 ? 'token' : 'tokens'} (their sum is ${totals[selected]!}${last}).`,
    {
      hint: 'Its weights hold NaN or infinite values: the checkpoint is damaged, or overflowed when it was written as float16. Download it again, or take it in bfloat16 or float32.',
    },
  );
}

export function contextError(
  needed: number,
  { contextLength, contextOrigin }: Pick<ModelConfiguration, 'contextLength' | 'contextOrigin'>,
): MistletoeError {
  return new MistletoeError(
    'context',
    `The sequence needs ${needed} positions; the model's context has ${contextLength} (${contextOrigin}).`,
    { hint: 'Shorten the prompt or ask for fewer new tokens.' },
  );
}
