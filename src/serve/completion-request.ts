/** /v1/completions: texts, or token ids, that are continued as they are. */
import type { AnswerRequest } from './answer-request.js';
import { readCommon } from './answer-request.js';
import type { CompletionFields } from './request-schema.js';
import { completionSchema, readFields } from './request-schema.js';

/** OpenAI's own default on this route. */
const defaultMaxTokens = 16;

export function readCompletionRequest(body: unknown): AnswerRequest {
  const fields = readFields(completionSchema, body);
  return {
    ...readCommon(fields),
    kind: 'completion',
    prompts: readPrompts(fields.prompt),
    maxNewTokens: fields.max_tokens ?? defaultMaxTokens,
    topLikelihoods: fields.logprobs ?? undefined,
  };
}

function readPrompts(prompt: CompletionFields['prompt']): AnswerRequest['prompts'] {
  if (typeof prompt === 'string') return [prompt];
  return isTokenIds(prompt) ? [prompt] : prompt;
}

function isTokenIds(prompt: Exclude<CompletionFields['prompt'], string>): prompt is number[] {
  return typeof prompt[0] === 'number';
}
