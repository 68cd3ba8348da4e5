/** A prompt that the target reads in chunks, which bounds the size of attention scores. */
import { MistletoeError } from '../core/errors.js';
import { outputsFor, type StateReader, statesOf } from '../draft/joined/target-states.js';
import type { KvCache } from '../model/cache/kv-cache.js';
import type { CausalModel } from '../model/causal-model.js';
import { contextError, type ForwardOutput, type ForwardResult } from '../model/forward.js';
import type { PassScheduler } from '../model/lanes/lane-program.js';
import type { RowBuffer } from '../runtime/row-buffer.js';
import type { ReadMember, Steps } from './step.js';

const chunkRows = 256;
/** Chunks of more rows have a pass of their own: other sequences would be padded to them. */
const maxSharedRows = 16;

export interface ReadingOptions {
  readonly chunk?: number | undefined;
  readonly want: readonly ForwardOutput[];
  readonly taps?: readonly number[] | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Logits and argmax are those of the chunk's last token. */
  readonly onChunk?: ((tokens: Int32Array, result: ForwardResult) => Promise<void> | void) | undefined;
  /** With the result of the last chunk; undefined if the reading was aborted. */
  readonly onEnd?: ((last: ForwardResult | undefined) => Promise<void>) | undefined;
}

export class PromptReading implements ReadMember {
  private start = 0;
  /** Of the newest chunk. */
  private result: ForwardResult | undefined;

  constructor(
    private readonly model: CausalModel,
    private readonly cache: KvCache,
    private readonly tokenIds: readonly number[],
    private readonly options: ReadingOptions,
  ) {}

  get isDone(): boolean {
    return this.isRead || this.options.signal?.aborted === true;
  }

  /** Undefined if it was aborted. */
  get lastResult(): ForwardResult | undefined {
    return this.isRead ? this.result : undefined;
  }

  private get isRead(): boolean {
    return this.start >= this.tokenIds.length;
  }

  get isShort(): boolean {
    return this.tokenIds.length - this.start <= maxSharedRows;
  }

  /** Reads the next chunk. */
  async readOn(scheduler?: PassScheduler): Promise<void> {
    if (this.start === 0) checkPrompt(this.model, this.cache.length, this.tokenIds);
    if (!this.isDone) await this.readChunk(scheduler);
    if (this.isDone) await this.options.onEnd?.(this.lastResult);
  }

  private async readChunk(scheduler: PassScheduler | undefined): Promise<void> {
    const { model, cache, options } = this;
    const { chunk = chunkRows, want, taps } = options;
    const tokens = Int32Array.from(this.tokenIds.slice(this.start, this.start + chunk));
    const select = Int32Array.of(tokens.length - 1);
    this.result = await model.forward({ tokens, cache, select, want, taps, scheduler });
    cache.append(this.result.rows, [...tokens.keys()]);
    this.result.rows.free();
    this.start += tokens.length;
    await options.onChunk?.(tokens, this.result);
  }
}

/** Without an engine. Returns the outputs of the last chunk; undefined if aborted. */
export async function prefill(
  ...given: ConstructorParameters<typeof PromptReading>
): Promise<ForwardResult | undefined> {
  const reading = new PromptReading(...given);
  while (!reading.isDone) await reading.readOn();
  return reading.lastResult;
}

function checkPrompt({ configuration }: CausalModel, past: number, tokenIds: readonly number[]): void {
  const { contextLength, vocabularySize } = configuration;
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
  if (past + tokenIds.length > contextLength) throw contextError(past + tokenIds.length, configuration);
}

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

/** If aborted, holds what was read so far. Without an engine, its passes run at once. */
export async function readPrefix(
  model: CausalModel,
  reader: StateReader,
  tokenIds: readonly number[],
  { engine, signal }: { readonly engine?: Steps | undefined; readonly signal?: AbortSignal | undefined } = {},
): Promise<ReadPrefix> {
  const cache = model.createCache();
  const parts: RowBuffer[] = [];
  if (tokenIds.length > 0) {
    const reading = new PromptReading(model, cache, tokenIds, {
      want: outputsFor(reader),
      taps: reader.taps,
      signal,
      onChunk(_, result) {
        const states = statesOf(model.runtime, reader, result);
        if (states !== undefined) parts.push(states);
      },
    });
    if (engine === undefined) while (!reading.isDone) await reading.readOn();
    else await engine.read(reading);
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
