/**
 * An answer as server-sent events, in OpenAI's order: the role, the text as it becomes certain, the reason of the end, the
 * usage where it was asked for, `[DONE]`. One event carries what one pass of the target brought, which with accepted
 * drafts is several tokens; text comes in whole characters.
 */
import type { AnswerProgress, SpelledLikelihood } from '../decode/engine/engine-messages.js';
import type { AnswerHead } from './answer-body.js';
import { chatLogprobs, completionLogprobs, endingOf, usageOf } from './answer-choice.js';
import type { AnswerRequest } from './answer-request.js';
import type { ApiError } from './api-error.js';
import type { HostedAnswer } from './engine-host.js';
import type { SpeculationReport } from './speculation-report.js';

export interface AnswerEvents {
  begin(): string;
  /** Empty where a pass brought nothing to show. */
  progress(progress: AnswerProgress, choice: number): string;
  end(answer: HostedAnswer, report: SpeculationReport | undefined): string;
  fail(error: ApiError): string;
}

const done = 'data: [DONE]\n\n';

export function createAnswerEvents(head: AnswerHead, request: AnswerRequest): AnswerEvents {
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
    begin() {
      if (!isChat) return '';
      const delta = { role: 'assistant', content: '' };
      return Array.from({ length: count }, (_, index) => event([{ index, delta, ...open }])).join('');
    },
    progress({ tokens }, choice) {
      const text = tokens.map((token) => token.text).join('');
      const likelihoods = tokens.flatMap(({ likelihood }) => likelihood ?? []);
      if (text === '' && likelihoods.length === 0) return '';
      const logprobs = logprobsOf(likelihoods, choice);
      const content = isChat ? { delta: { content: text } } : { text };
      return event([{ index: choice, ...content, ...open, logprobs }]);
    },
    end({ generations, cut }, report) {
      const endings = generations.map((generation, index) => {
        const content = isChat ? { delta: {} } : { text: '' };
        return event([{ index, ...content, logprobs: null, ...endingOf(generation, cut) }]);
      });
      const total = includesUsage
        ? event([], {
            usage: usageOf(generations, request.choices),
            ...(report === undefined ? {} : { metrics: report }),
          })
        : '';
      return endings.join('') + total + done;
    },
    fail: (error) => `data: ${JSON.stringify(error.body)}\n\n${done}`,
  };
}
