/** /v1/chat/completions: a conversation for the chat template. */
import type { ChatMessage } from '../text/template/chat-template.js';
import type { AnswerRequest } from './answer-request.js';
import { readCommon } from './answer-request.js';
import { badRequest } from './api-error.js';
import type { ChatFields } from './request-schema.js';
import { chatSchema, readFields } from './request-schema.js';

export function readChatRequest(body: unknown): AnswerRequest {
  const fields = readFields(chatSchema, body);
  const { max_tokens: older, max_completion_tokens: newer } = fields;
  if (older != null && newer != null && older !== newer)
    throw badRequest('max_tokens and max_completion_tokens contradict each other.', 'max_tokens');
  return {
    ...readCommon(fields),
    kind: 'chat',
    prompts: [fields.messages.map(readMessage)],
    maxNewTokens: newer ?? older ?? undefined,
    topLikelihoods: readLikelihoods(fields),
  };
}

function readMessage({ role, content, name }: ChatFields['messages'][number]): ChatMessage {
  return {
    role: role === 'developer' ? 'system' : role, // templates know the older name
    content: typeof content === 'string' ? content : (content ?? []).map((part) => part.text).join('\n'),
    ...(name == null ? {} : { name }),
  };
}

function readLikelihoods({ logprobs, top_logprobs: top }: ChatFields): number | undefined {
  if (logprobs === true) return top ?? 0;
  if (top != null && top > 0) throw badRequest('top_logprobs was given without logprobs.', 'top_logprobs');
  return undefined;
}
