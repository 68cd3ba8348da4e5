/** What a client asks for, in the engine's words: both routes become this. */
import { MistletoeError } from '../core/errors.js';
import type { SamplingOptions } from '../core/sampling.js';
import type { DraftPolicy } from '../draft/policy.js';
import { parseDraftPolicy } from '../draft/policy.js';
import type { ChatMessage } from '../text/template/chat-template.js';
import { badRequest } from './api-error.js';
import type { ChatFields, CompletionFields, MetricsLevel } from './request-schema.js';

export type RouteKind = 'chat' | 'completion';

export interface AnswerRequest {
  readonly kind: RouteKind;
  readonly model: string | undefined;
  /** Several only on /v1/completions. */
  readonly prompts: readonly (string | readonly ChatMessage[] | readonly number[])[];
  /** Answers to each prompt. */
  readonly choices: number;
  /** As many as there is room for where it is undefined. */
  readonly maxNewTokens: number | undefined;
  readonly sampling: SamplingOptions;
  readonly seed: number | undefined;
  readonly stopStrings: readonly string[];
  readonly topLikelihoods: number | undefined;
  readonly isStream: boolean;
  readonly includesUsage: boolean;
  /** In place of the server's own. */
  readonly drafter: string | undefined;
  readonly draft: string | undefined;
  readonly guarded: boolean | undefined;
  readonly metrics: MetricsLevel | undefined;
}

type CommonFields = Pick<ChatFields & CompletionFields, keyof ChatFields & keyof CompletionFields>;
type OwnParts = 'kind' | 'prompts' | 'topLikelihoods' | 'maxNewTokens';

export function readCommon(fields: Omit<CommonFields, 'logprobs'>): Omit<AnswerRequest, OwnParts> {
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
    drafter: mistletoe?.drafter,
    draft: mistletoe?.draft,
    guarded: mistletoe?.guarded,
    metrics: mistletoe?.metrics,
  };
}

/** OpenAI's default is to draw at temperature 1; Mistletoe's commands are greedy by default, this server is not. */
function readSampling({
  temperature,
  top_p: topP,
  top_k: topK,
}: Pick<CommonFields, 'temperature' | 'top_p' | 'top_k'>): SamplingOptions {
  return {
    temperature: temperature ?? 1,
    ...(topP == null ? {} : { topP }),
    ...(topK == null || topK < 1 ? {} : { topK }),
  };
}

/** A policy that names a file would have a stranger read files of this machine. */
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
