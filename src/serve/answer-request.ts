/** Requests of both routes, as the engine takes them. */
import { MistletoeError } from '../core/errors.js';
import type { SamplingOptions } from '../core/sampling.js';
import { type DraftPolicy, parseDraftPolicy } from '../draft/tree/policy.js';
import type { ChatMessage } from '../text/template/chat-template.js';
import { badRequest } from './api-error.js';
import type { ChatFields, CompletionFields } from './request-schema.js';
import { chatSchema, completionSchema, readFields } from './request-schema.js';

interface OwnParts {
  readonly kind: 'chat' | 'completion';
  /** Several only on /v1/completions. */
  readonly prompts: readonly (string | readonly ChatMessage[] | readonly number[])[];
  /** Undefined: up to the end of the context. */
  readonly maxNewTokens: number | undefined;
  readonly topLikelihoods: number | undefined;
}

export type AnswerRequest = Readonly<ReturnType<typeof readCommon>> & OwnParts;

type CommonFields = Pick<ChatFields & CompletionFields, keyof ChatFields & keyof CompletionFields>;

export function readCommon(fields: Omit<CommonFields, 'logprobs'>) {
  const { model, n, seed, stop, stream, stream_options: streaming, mistletoe } = fields;
  if (streaming != null && stream !== true)
    throw badRequest('stream_options was given without stream.', 'stream_options');
  if (mistletoe?.draft !== undefined) checkDraft(mistletoe.draft);
  return {
    model: model ?? undefined,
    choices: n ?? 1,
    sampling: readSampling(fields),
    seed: seed ?? undefined,
    stopStrings: typeof stop === 'string' ? [stop] : (stop ?? []),
    isStream: stream ?? false,
    includesUsage: streaming?.include_usage ?? false,
    // These override the server's own.
    drafter: mistletoe?.drafter,
    draft: mistletoe?.draft,
    metrics: mistletoe?.metrics,
  };
}

/** As with OpenAI, the default is temperature 1; Mistletoe's commands are greedy by default. */
function readSampling({
  temperature,
  top_p: topP,
  top_k: topK,
}: Pick<CommonFields, 'temperature' | 'top_p' | 'top_k'>): SamplingOptions {
  return {
    temperature: temperature ?? 1,
    topP: topP ?? undefined,
    topK: topK == null || topK < 1 ? undefined : topK,
  };
}

/** A policy that names a file would let clients read files of this machine. */
function checkDraft(draft: string): void {
  let policy: DraftPolicy;
  try {
    policy = parseDraftPolicy(draft);
  } catch (cause) {
    if (!(cause instanceof MistletoeError)) throw cause;
    throw badRequest(cause.message, 'mistletoe.draft');
  }
  if (policy.kind === 'tree' && policy.source.kind === 'file')
    throw badRequest('Requests may name a tree, not a file that has one.', 'mistletoe.draft');
}

/** /v1/chat/completions: a conversation for the chat template. */
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

/** OpenAI's default for /v1/completions. */
const defaultMaxTokens = 16;

/** /v1/completions: texts or token ids to continue. */
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
