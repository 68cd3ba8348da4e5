/**
 * The fields of a request. Every field of OpenAI's interface is honoured, known to change nothing, or refused by its
 * name; what is asked for is never left out in silence.
 */
import { z } from 'zod';
import { badRequest } from './api-error.js';
import type { Content, Prompt } from './field-values.js';
import { isContent, isMetadata, isPrompt, isSame, isStop, mostStops } from './field-values.js';

export const metricsLevels = ['none', 'summary', 'detailed'] as const;
export type MetricsLevel = (typeof metricsLevels)[number];

const count = z.number().int().positive();

/** May be given as long as it asks for nothing: absent, null, or one of these. */
function only(allowed: readonly unknown[], expected: string) {
  const isAllowed = (value: unknown): boolean =>
    value === undefined || value === null || allowed.some((one) => isSame(one, value));
  return z
    .unknown()
    .refine(isAllowed, { error: `is not supported; ${expected}` })
    .optional();
}

const refused = only([], 'leave it out');

/** They tell the operator of a service something, and change no answer. */
const harmless = {
  user: z.string().nullish(),
  metadata: z.custom<Readonly<Record<string, string>>>(isMetadata, 'expected names with texts').nullish(),
  safety_identifier: z.string().nullish(),
  prompt_cache_key: z.string().nullish(),
  prompt_cache_retention: z.string().nullish(),
  service_tier: only(['auto', 'default'], 'leave it out, or give auto or default'),
  store: only([false], 'nothing is stored here: leave it out, or give false'),
};

const unsupported = {
  frequency_penalty: only([0], 'leave it out, or give 0'),
  presence_penalty: only([0], 'leave it out, or give 0'),
  logit_bias: only([{}], 'leave it out'),
};

/** What this server has beyond OpenAI's interface. */
const own = z.strictObject({
  drafter: z.string().max(200).optional(),
  draft: z.string().max(64).optional(),
  guarded: z.boolean().optional(),
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
    .custom<string | string[]>(isStop, `expected a text, or a list of up to ${mostStops} texts, none empty`)
    .nullish(),
  stream: z.boolean().nullish(),
  stream_options: z
    .strictObject({
      include_usage: z.boolean().nullish(),
      include_obfuscation: only([false], 'leave it out, or give false'),
    })
    .nullish(),
  mistletoe: own.nullish(),
  ...harmless,
  ...unsupported,
};

const content = z.custom<Content>(isContent, 'expected a text, or a list of parts of type "text"');

/** What clients send back of an answer they got, empty where there was nothing. */
const emptied = {
  refusal: refused,
  audio: refused,
  annotations: only([[]], 'leave it out'),
  tool_calls: only([[]], 'leave it out'),
  function_call: refused,
  reasoning_content: refused,
  name: refused,
};

const message = z.discriminatedUnion('role', [
  z.strictObject({ role: z.enum(['system', 'developer', 'user']), content, name: refused }),
  z.strictObject({ role: z.literal('assistant'), content, ...emptied }),
]);

const mostMessages = 2048;

export const chatSchema = z.strictObject({
  ...common,
  messages: z
    .array(z.unknown())
    .min(1, 'expected at least one message')
    .max(mostMessages, `expected at most ${mostMessages} messages`)
    .pipe(z.array(message)),
  max_completion_tokens: count.nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.number().int().min(0).max(20).nullish(),
  response_format: only([{ type: 'text' }], 'leave it out, or give { "type": "text" }'),
  modalities: only([['text']], 'leave it out, or give ["text"]'),
  parallel_tool_calls: z.boolean().nullish(), // of tools, which are refused
  tools: only([[]], 'leave it out'),
  tool_choice: only(['none'], 'leave it out, or give none'),
  functions: only([[]], 'leave it out'),
  function_call: only(['none'], 'leave it out, or give none'),
  audio: refused,
  prediction: refused,
  reasoning_effort: only(['none'], 'leave it out, or give none'),
  verbosity: refused,
  web_search_options: refused,
});
export type ChatFields = z.infer<typeof chatSchema>;

export const completionSchema = z.strictObject({
  ...common,
  prompt: z.custom<Prompt>(isPrompt, 'expected a text, token ids, or a list of either, none of them empty'),
  logprobs: z.number().int().min(0).max(5).nullish(),
  echo: only([false], 'leave it out, or give false'),
  suffix: refused,
  best_of: only([1], 'leave it out, or give 1'),
});
export type CompletionFields = z.infer<typeof completionSchema>;

const longestName = 64;

/** The fields, or a refusal that names the first one that is wrong. */
export function readFields<Schema extends z.ZodType>(schema: Schema, body: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  const path = issue.path.map(String);
  if (issue.code === 'unrecognized_keys') {
    const field = cut([...path, issue.keys[0] ?? ''].join('.'));
    throw badRequest(`The field ${field} is not known here.`, field, 'unknown_field');
  }
  if (path.length === 0) throw badRequest('The body is no JSON object.');
  const field = cut(path.join('.'));
  throw badRequest(`${field}: ${issue.message}.`, field);
}

function cut(name: string): string {
  return name.length > longestName ? `${name.slice(0, longestName)}…` : name;
}
