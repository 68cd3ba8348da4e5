/** A whole answer as one JSON body. */
import type { SpelledLikelihood } from '../decode/engine/engine-messages.js';
import type { AnswerRequest } from './answer-request.js';
import { chatLogprobs, completionLogprobs, endingOf, usageOf } from './answer-choice.js';
import type { HostedAnswer } from './engine-host.js';
import type { SpeculationReport } from './speculation-report.js';

/** What stands on every body and chunk of one answer. */
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
  /** [choice] of every token; undefined where nobody asked. */
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
    ...(report === undefined ? {} : { metrics: report }),
  };
}
