/** Answers in OpenAI's format: one JSON body, or server-sent events. */
import type { AnswerProgress, SpelledLikelihood } from '../decode/worker/engine-messages.js';
import type { Generation } from '../decode/request.js';
import type { AnswerRequest } from './answer-request.js';
import type { ApiError } from './api-error.js';
import type { Cut, HostedAnswer } from './engine-host.js';
import type { SpeculationReport } from './speculation-report.js';

/** The fields that every body and chunk of one answer has. */
export interface AnswerHead {
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
}

export interface WholeAnswer {
  readonly head: AnswerHead;
  readonly request: AnswerRequest;
  readonly answer: HostedAnswer;
  /** [choice] of every token; undefined unless the request asks for logprobs. */
  readonly likelihoods: readonly (readonly SpelledLikelihood[])[] | undefined;
  readonly report: SpeculationReport | undefined;
}

export function answerBody({ head, request, answer, likelihoods, report }: WholeAnswer) {
  const { generations, cut } = answer;
  const isChat = request.kind === 'chat';
  const choices = generations.map((generation, index) => {
    const scores = likelihoods?.[index];
    const ending = endingOf(generation, cut);
    if (!isChat)
      return {
        index,
        text: generation.text,
        logprobs: scores ? completionLogprobs(scores) : null,
        ...ending,
      };
    const message = { role: 'assistant', content: generation.text, refusal: null };
    return { index, message, logprobs: scores ? chatLogprobs(scores) : null, ...ending };
  });
  const { id, ...rest } = head;
  return {
    id,
    object: isChat ? 'chat.completion' : 'text_completion',
    ...rest,
    choices,
    usage: usageOf(generations, request.choices),
    metrics: report,
  };
}

export function endingOf({ finishReason, stopString }: Generation, cut: Cut | undefined) {
  const stopReasons = {
    stop: null,
    'stop-string': stopString ?? null,
    length: null,
    context: 'context',
    aborted: cut === 'shutdown' ? 'shutdown' : 'time_limit',
  };
  const isStopped = finishReason === 'stop' || finishReason === 'stop-string';
  return {
    finish_reason: isStopped ? ('stop' as const) : ('length' as const),
    /** The stop string, as in vLLM, or what cut the answer short, for which OpenAI has no value. */
    stop_reason: stopReasons[finishReason],
  };
}

/** Values of the label `finished_reason` in vLLM's metrics (FinishReason in vllm/v1/engine) that this server uses. */
export const finishedReasons = ['stop', 'length', 'abort'] as const;
export type FinishedReason = (typeof finishedReasons)[number];

export const finishedReasonOf = (generation: Generation): FinishedReason =>
  generation.finishReason === 'aborted' ? 'abort' : endingOf(generation, undefined).finish_reason;

/** A prompt with several answers counts once. */
export function usageOf(generations: readonly Generation[], choices: number) {
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

const done = 'data: [DONE]\n\n';

/** JSON has no minus infinity; OpenAI writes this. */
const minLogprob = -9999;
const bounded = (logprob: number): number => Math.max(logprob, minLogprob);

export function chatLogprobs(likelihoods: readonly SpelledLikelihood[]) {
  const write = ({ text, bytes, logprob }: Pick<SpelledLikelihood, 'text' | 'bytes' | 'logprob'>) => ({
    token: text,
    logprob: bounded(logprob),
    bytes,
  });
  return {
    content: likelihoods.map(({ top, ...token }) => ({ ...write(token), top_logprobs: top.map(write) })),
    refusal: null,
  };
}

/** @param start in a stream, the characters of all earlier tokens */
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

/**
 * An answer as server-sent events, in OpenAI's order: role, text, finish reason, usage if requested, `[DONE]`. One event
 * holds the tokens of one target pass, several with accepted drafts. Text is sent in whole characters.
 */
export function createAnswerEvents(head: AnswerHead, request: AnswerRequest) {
  const isChat = request.kind === 'chat';
  const { includesUsage } = request;
  const { id, ...rest } = head;
  const object = isChat ? 'chat.completion.chunk' : 'text_completion';
  const count = request.prompts.length * request.choices;
  const offsets = Array.from({ length: count }, () => 0);
  const usage = includesUsage ? { usage: null } : {};

  const event = (choices: readonly object[], more: object = usage): string =>
    `data: ${JSON.stringify({ id, object, ...rest, choices, ...more })}\n\n`;
  const open = { logprobs: null, finish_reason: null };

  const logprobsOf = (likelihoods: readonly SpelledLikelihood[], choice: number) => {
    if (likelihoods.length === 0) return null;
    if (isChat) return chatLogprobs(likelihoods);
    const start = offsets[choice]!;
    offsets[choice] = likelihoods.reduce((offset, { text }) => offset + text.length, start);
    return completionLogprobs(likelihoods, start);
  };

  return {
    begin(): string {
      if (!isChat) return '';
      const delta = { role: 'assistant', content: '' };
      return Array.from({ length: count }, (_, index) => event([{ index, delta, ...open }])).join('');
    },
    /** Empty if the pass produced no text. */
    progress({ tokens }: AnswerProgress, choice: number): string {
      const text = tokens.map((token) => token.text).join('');
      const likelihoods = tokens.flatMap(({ likelihood }) => likelihood ?? []);
      if (text === '' && likelihoods.length === 0) return '';
      const logprobs = logprobsOf(likelihoods, choice);
      const content = isChat ? { delta: { content: text } } : { text };
      return event([{ index: choice, ...content, ...open, logprobs }]);
    },
    end({ generations, cut }: HostedAnswer, report: SpeculationReport | undefined): string {
      const endings = generations.map((generation, index) => {
        const content = isChat ? { delta: {} } : { text: '' };
        return event([{ index, ...content, logprobs: null, ...endingOf(generation, cut) }]);
      });
      const total = includesUsage
        ? event([], { usage: usageOf(generations, request.choices), metrics: report })
        : '';
      return endings.join('') + total + done;
    },
    fail: (error: ApiError): string => `data: ${JSON.stringify(error.body)}\n\n${done}`,
  };
}
