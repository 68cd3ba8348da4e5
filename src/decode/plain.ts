/** Plain decoding, one target pass per token: the baseline of speculative decoding. */
import { createRandom, drawFrom, type Random } from '../core/random.js';
import { checkSamplingOptions, toDistribution, type SamplingOptions } from '../core/sampling.js';
import type { TokenTree } from '../draft/tree/token-tree.js';
import type { KvCache } from '../model/cache/kv-cache.js';
import type { CausalModel } from '../model/causal-model.js';
import { contextError, type ForwardOutput, type ForwardResult } from '../model/forward.js';
import { type PassScheduler, runDirectly } from '../model/lanes/lane-program.js';
import type { TokenDraws } from '../model/lanes/token-draws.js';
import type { RowBuffer } from '../runtime/row-buffer.js';
import type { AnswerOptions, FinishReason, TokenOrigin } from './answer.js';
import { Answer, createLikelihoodReader } from './answer.js';
import { MistletoeError } from '../core/errors.js';
import { GenerationClock, type GenerationTimes } from './generation-clock.js';
import { PassesAhead } from './passes-ahead.js';
import type { Drafter } from '../draft/drafter.js';

/** Where logits stay while tokens are drawn: on the host, or in a runtime that draws itself. */
export interface LogitsOnDevice {
  readonly draws: TokenDraws;
  readonly scheduler: PassScheduler;
  /** [node, vocabulary] The draft distributions of a tree's nodes. */
  draftedRows(tree: TokenTree): RowBuffer;
}

/** Undefined: logits go to the host. Likelihoods need whole rows there. */
export function locateLogits(
  { runtime, draws, configuration: { vocabularySize } }: CausalModel,
  {
    sampling,
    scheduler = runDirectly,
    topLikelihoods,
  }: Pick<GenerationRequest, 'sampling' | 'scheduler' | 'topLikelihoods'>,
): LogitsOnDevice | undefined {
  if (runtime.drawsInPrograms !== true || sampling.temperature === 0 || topLikelihoods !== undefined)
    return undefined;
  return {
    draws,
    scheduler,
    draftedRows({ tokens, draftDistributions, keptDistributions }) {
      if (keptDistributions !== undefined) return keptDistributions;
      const rows = runtime.allocate(tokens.length, vocabularySize);
      draftDistributions.forEach((distribution, node) => {
        if (distribution !== undefined && node < tokens.length) rows.write(distribution, node);
      });
      return rows;
    },
  };
}

export interface GenerationRequest extends AnswerOptions {
  readonly promptIds: readonly number[];
  readonly sampling: SamplingOptions;
  readonly seed: number;
  /** Joins its passes with those of other requests. */
  readonly scheduler?: PassScheduler | undefined;
  /** The beginning of the prompt, if already read. */
  readonly prefix?: ReadPrefix | undefined;
  /** Report likelihoods, with this many of the most likely tokens. */
  readonly topLikelihoods?: number | undefined;
}

export interface Generation extends GenerationTimes {
  readonly promptTokenIds: readonly number[];
  readonly tokenIds: readonly number[];
  readonly origins: readonly TokenOrigin[];
  readonly text: string;
  readonly finishReason: FinishReason;
  readonly stopString?: string | undefined;
  readonly tokensPerSecond: number;
}

export async function decodePlain(model: CausalModel, request: GenerationRequest): Promise<Generation> {
  const cache = request.prefix?.cache.fork() ?? model.createCache();
  try {
    return await decodeInto(cache, model, request);
  } finally {
    cache.release();
  }
}

async function decodeInto(
  cache: KvCache,
  model: CausalModel,
  request: GenerationRequest,
): Promise<Generation> {
  const { promptIds, scheduler, signal, topLikelihoods } = request;
  const { contextLength, vocabularySize } = model.configuration;
  const onDevice = locateLogits(model, request);
  const chooser = createChooser(request.sampling, createRandom(request.seed, 'decode'), onDevice);
  const likelihoods = createLikelihoodReader(topLikelihoods, vocabularySize);
  const want = [...new Set([chooser.want, ...likelihoods.want])];
  const answer = new Answer(promptIds, request);
  const clock = new GenerationClock(model.runtime);
  await Promise.all([model.prepare(), onDevice?.draws.prepare()]);
  clock.start();
  const rest = promptIds.slice(cache.length);
  const read = await prefill(model, cache, rest, { want, scheduler, signal });
  clock.endPrefill();
  if (read === undefined) answer.end('aborted');
  let token = read === undefined ? 0 : await chooser.choose(read);
  let likelihood = read && likelihoods.read(read, 0, token);
  const isGreedy = chooser.want === 'argmax' && topLikelihoods === undefined;
  const ahead = isGreedy ? new PassesAhead(model, cache, scheduler) : undefined;
  try {
    while (answer.push(token, 'target', likelihood)) {
      if (ahead?.isFull ?? cache.length >= contextLength) {
        answer.end('context');
        break;
      }
      if (ahead !== undefined) {
        ({ token } = await ahead.next(token, answer.remaining > 1));
        continue;
      }
      const result = await model.forward({ tokens: Int32Array.of(token), cache, want, scheduler });
      cache.appendAll(result.rows, 1);
      result.rows.free();
      token = await chooser.choose(result);
      likelihood = likelihoods.read(result, 0, token);
    }
  } finally {
    ahead?.free();
  }
  return finishGeneration(promptIds, answer, clock);
}

export interface Chooser {
  readonly want: 'argmax' | 'logits' | 'scores';
  choose(result: ForwardResult): number | Promise<number>;
}

/** Greedy decoding needs only the argmax; sampling needs the logits, on the host or on the device. */
export function createChooser(sampling: SamplingOptions, random: Random, onDevice?: LogitsOnDevice): Chooser {
  checkSamplingOptions(sampling);
  if (sampling.temperature === 0) return { want: 'argmax', choose: ({ argmax }) => argmax!.at(-1)! };
  if (onDevice !== undefined) {
    const { draws, scheduler } = onDevice;
    const choose = async ({ scores }: ForwardResult): Promise<number> =>
      (await draws.draw(scores!, sampling, [random.next()], scheduler))[0]!;
    return { want: 'scores', choose };
  }
  return { want: 'logits', choose: ({ logits }) => drawFrom(toDistribution(logits!, sampling), random) };
}

export function finishGeneration(
  promptIds: readonly number[],
  answer: Answer,
  clock: GenerationClock,
): Generation {
  const times = clock.end();
  const { decodeMs } = times;
  const later = answer.tokenIds.length - 1;
  return {
    promptTokenIds: promptIds,
    tokenIds: answer.tokenIds,
    origins: answer.origins,
    text: answer.text,
    finishReason: answer.finishReason ?? 'length',
    stopString: answer.stopString,
    ...times,
    tokensPerSecond: later > 0 && decodeMs > 0 ? later / (decodeMs / 1000) : 0,
  };
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

// Reads the prompt in chunks to bound the size of attention scores.
const prefillChunk = 256;

interface PrefillOptions {
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
