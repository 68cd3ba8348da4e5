/**
 * The fields of a request. Every field of OpenAI's and vLLM's APIs is honored, known to have no effect, or refused by
 * name. None is ignored silently.
 */
import { isDeepStrictEqual } from 'node:util';
import * as z from '../core/schema.js';
import { badRequest } from './api-error.js';

/*
 * Lists and texts of a request may have a hundred thousand items. They are checked up to the first fault; a zod schema
 * would collect every fault and block other requests meanwhile.
 */

/** Halves of a character cannot be encoded, and no text of a model matches them. */
function isText(value: unknown): value is string {
  return typeof value === 'string' && !/\p{Surrogate}/u.test(value);
}

const isFilled = (value: unknown): value is string => isText(value) && value !== '';

const isToken = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

type Prompt = string | number[] | string[] | number[][];

function isPrompt(value: unknown): value is Prompt {
  if (typeof value === 'string') return isFilled(value);
  if (!Array.isArray(value) || value.length === 0) return false;
  const [first] = value as readonly unknown[];
  if (typeof first === 'string') return value.every(isFilled);
  return Array.isArray(first) ? value.every(isTokenList) : isTokenList(value);
}

function isTokenList(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every(isToken);
}

interface TextPart {
  readonly type: 'text';
  readonly text: string;
}
type Content = string | readonly TextPart[];

function isContent(value: unknown): value is Content {
  return isText(value) || (Array.isArray(value) && value.length > 0 && value.every(isTextPart));
}

function isTextPart(value: unknown): value is TextPart {
  if (typeof value !== 'object' || value === null || Object.keys(value).length !== 2) return false;
  return 'type' in value && value.type === 'text' && 'text' in value && isText(value.text);
}

const maxStops = 4;
const maxStopLength = 1000;

function isStop(value: unknown): value is string | string[] {
  const isOne = (each: unknown): boolean => isFilled(each) && each.length <= maxStopLength;
  return Array.isArray(value) ? value.length <= maxStops && value.every(isOne) : isOne(value);
}

function isMetadata(value: unknown): value is Readonly<Record<string, string>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((each) => typeof each === 'string');
}

export const metricsLevels = ['none', 'summary', 'detailed'] as const;
export type MetricsLevel = (typeof metricsLevels)[number];

const count = z.number().int().positive();

/**
 * A field that clients of OpenAI and vLLM send with its default value (those of vLLM's request schemas). Absent, null, and
 * the allowed values are accepted; any other value is refused by the field's name.
 */
function neutral(...allowed: readonly unknown[]) {
  const isAllowed = (value: unknown): boolean =>
    value == null || allowed.some((one) => one === value || isDeepStrictEqual(one, value));
  const values = allowed.map((value) =>
    typeof value === 'string' && value !== '' ? value : JSON.stringify(value),
  );
  const error = `is not supported; leave it out${values.length === 0 ? '' : `, or give ${values.join(' or ')}`}`;
  return z.unknown().refine(isAllowed, { error }).optional();
}

/** Several names, separated by blanks. The schemas know them; the types of requests leave them out. */
function neutrals(names: string, ...allowed: readonly unknown[]): Readonly<Record<never, z.ZodType>> {
  return Object.fromEntries(names.split(' ').map((name) => [name, neutral(...allowed)]));
}

const neutralFields = {
  // Sampling and stopping.
  ...neutrals('frequency_penalty presence_penalty min_p min_tokens', 0),
  ...neutrals('repetition_penalty length_penalty best_of', 1),
  ...neutrals('thinking_token_budget', -1),
  ...neutrals('ignore_eos use_beam_search', false),
  ...neutrals('bad_words stop_token_ids', []),
  ...neutrals('logit_bias', {}),
  ...neutrals('response_format', { type: 'text' }),
  ...neutrals('repetition_detection allowed_token_ids structured_outputs'),
  ...neutrals('guided_json guided_regex guided_choice guided_grammar'),
  // Reading the prompt and writing the answer.
  ...neutrals('echo include_stop_str_in_output return_tokens_as_token_ids', false),
  ...neutrals('return_token_ids return_token_offsets', false),
  ...neutrals('skip_special_tokens spaces_between_special_tokens', true),
  ...neutrals('truncate_prompt_tokens truncation_side prompt_logprobs logprob_token_ids'),
  ...neutrals('stream_interval', 1),
  // Scheduling inside an engine.
  ...neutrals('priority routed_experts_prompt_start', 0),
  ...neutrals('kv_transfer_params ec_transfer_params vllm_xargs', {}),
  ...neutrals('request_id'),
};

const neutralChatFields = {
  ...neutrals('modalities', ['text']),
  ...neutrals('tools functions documents', []),
  ...neutrals('tool_choice function_call reasoning_effort', 'none'),
  ...neutrals('audio prediction verbosity web_search_options chat_template'),
  ...neutrals('include_reasoning add_generation_prompt', true),
  // The chat template writes special tokens.
  ...neutrals('add_special_tokens continue_final_message return_prompt_text', false),
  ...neutrals('return_assistant_tokens_mask', false),
  ...neutrals('chat_template_kwargs mm_processor_kwargs media_io_kwargs', {}),
};

const neutralCompletionFields = {
  ...neutrals('suffix', ''),
  ...neutrals('add_special_tokens', true),
  ...neutrals('prompt_embeds'),
};

/** Fields of earlier answers that clients send back, empty if unused. */
const neutralAnswerFields = {
  ...neutrals('annotations tool_calls', []),
  ...neutrals('refusal audio function_call reasoning reasoning_content'),
};

/** For the operator of a service; they change no answer. */
const harmless = {
  user: z.string().nullish(),
  metadata: z.custom<Readonly<Record<string, string>>>(isMetadata, 'expected names with texts').nullish(),
  safety_identifier: z.string().nullish(),
  prompt_cache_key: z.string().nullish(),
  prompt_cache_retention: z.string().nullish(),
  /** Prompts are not cached across requests. */
  cache_salt: z.string().nullish(),
  session_id: z.string().nullish(),
  service_tier: neutral('auto', 'default'),
  store: neutral(false),
};

const own = z.strictObject({
  drafter: z.string().max(200).optional(),
  draft: z.string().max(64).optional(),
  metrics: z.enum(metricsLevels).optional(),
});

const common = {
  model: z.string().nullish(),
  max_tokens: count.nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().positive().max(1).nullish(),
  /** 0 and -1 keep the whole vocabulary. */
  top_k: z.number().int().min(-1).nullish(),
  n: count.nullish(),
  seed: z.number().int().nullish(),
  stop: z
    .custom<string | string[]>(isStop, `expected a text, or a list of up to ${maxStops} texts, none empty`)
    .nullish(),
  stream: z.boolean().nullish(),
  stream_options: z
    .strictObject({
      include_usage: z.boolean().nullish(),
      include_obfuscation: neutral(false),
      continuous_usage_stats: neutral(false),
    })
    .nullish(),
  mistletoe: own.nullish(),
  ...harmless,
  ...neutralFields,
};

const content = z.custom<Content>(isContent, 'expected a text, or a list of parts of type "text"');

/** Passed to the chat template; most templates do not use it. */
const name = z.custom<string>(isText, 'expected a text').nullish();

const message = z.discriminatedUnion('role', [
  z.strictObject({ role: z.enum(['system', 'developer', 'user']), content, name }),
  z.strictObject({ role: z.literal('assistant'), content: content.nullish(), name, ...neutralAnswerFields }),
]);

const maxMessages = 2048;

export const chatSchema = z.strictObject({
  ...common,
  messages: z
    .array(z.unknown())
    .min(1, 'expected at least one message')
    .max(maxMessages, `expected at most ${maxMessages} messages`)
    .pipe(z.array(message)),
  max_completion_tokens: count.nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.number().int().min(0).max(20).nullish(),
  parallel_tool_calls: z.boolean().nullish(), // of tools, which are refused
  ...neutralChatFields,
});
export type ChatFields = z.infer<typeof chatSchema>;

export const completionSchema = z.strictObject({
  ...common,
  prompt: z.custom<Prompt>(isPrompt, 'expected a text, token ids, or a list of either, none of them empty'),
  logprobs: z.number().int().min(0).max(5).nullish(),
  ...neutralCompletionFields,
});
export type CompletionFields = z.infer<typeof completionSchema>;

const maxNameLength = 64;

/** Throws an error that names the first wrong field. */
export function readFields<Schema extends z.ZodType>(schema: Schema, body: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  const path = issue.path.map(String);
  if (issue.code === 'unrecognized_keys') {
    const field = cut([...path, issue.keys[0] ?? ''].join('.'));
    throw badRequest(`The field ${field} is unknown.`, field, 'unknown_field');
  }
  if (path.length === 0) throw badRequest('The body is not a JSON object.');
  const field = cut(path.join('.'));
  throw badRequest(`${field}: ${issue.message}.`, field);
}

function cut(name: string): string {
  return name.length > maxNameLength ? `${name.slice(0, maxNameLength)}…` : name;
}
