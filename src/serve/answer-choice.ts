/** One answer as the interface words it: why it ended, and how likely its tokens were. */
import type { SpelledLikelihood } from '../decode/engine-messages.js';
import type { Generation } from '../decode/plain.js';
import type { Cut } from './engine-host.js';

export interface Ending {
  readonly finish_reason: 'stop' | 'length';
  /** As in vLLM the stop string that ended it; and what cut it short, for which OpenAI has no word. */
  readonly stop_reason: string | null;
}

export function endingOf({ finishReason, stopString }: Generation, cut: Cut | undefined): Ending {
  switch (finishReason) {
    case 'stop':
      return { finish_reason: 'stop', stop_reason: null };
    case 'stop-string':
      return { finish_reason: 'stop', stop_reason: stopString ?? null };
    case 'length':
      return { finish_reason: 'length', stop_reason: null };
    case 'context':
      return { finish_reason: 'length', stop_reason: 'context' };
    case 'aborted':
      return { finish_reason: 'length', stop_reason: cut === 'shutdown' ? 'shutdown' : 'time_limit' };
  }
}

/** Values of the label `finished_reason` in vLLM's metrics (FinishReason in vllm/v1/engine) that occur here. */
export const finishedReasons = ['stop', 'length', 'abort'] as const;
export type FinishedReason = (typeof finishedReasons)[number];

export function finishedReasonOf({ finishReason }: Generation): FinishedReason {
  switch (finishReason) {
    case 'stop':
    case 'stop-string':
      return 'stop';
    case 'length':
    case 'context':
      return 'length';
    case 'aborted':
      return 'abort';
  }
}

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

/** A prompt that several answers share counts once. */
export function usageOf(generations: readonly Generation[], choices: number): Usage {
  const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);
  const read = generations.filter((_, index) => index % choices === 0);
  const promptTokens = sum(read.map(({ promptTokenIds }) => promptTokenIds.length));
  const completionTokens = sum(generations.map(({ tokenIds }) => tokenIds.length));
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  };
}

/** Minus infinity is no JSON; OpenAI writes this. */
const minLogprob = -9999;
const bounded = (logprob: number): number => Math.max(logprob, minLogprob);

export function chatLogprobs(likelihoods: readonly SpelledLikelihood[]) {
  const write = ({ text, bytes, logprob }: Pick<SpelledLikelihood, 'text' | 'bytes' | 'logprob'>) => ({
    ...{ token: text, logprob: bounded(logprob), bytes },
  });
  return {
    content: likelihoods.map(({ top, ...token }) => ({ ...write(token), top_logprobs: top.map(write) })),
    refusal: null,
  };
}

/** `start`: characters of the tokens before these, in a stream. */
export function completionLogprobs(likelihoods: readonly SpelledLikelihood[], start = 0) {
  const tokens = likelihoods.map(({ text }) => text);
  let offset = start;
  return {
    tokens,
    token_logprobs: likelihoods.map(({ logprob }) => bounded(logprob)),
    top_logprobs: likelihoods.map(({ top }) =>
      Object.fromEntries(top.map(({ text, logprob }) => [text, bounded(logprob)])),
    ),
    text_offset: tokens.map((token) => {
      const here = offset;
      offset += token.length;
      return here;
    }),
  };
}
