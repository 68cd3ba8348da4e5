/**
 * What a request asks for, as far as the guard needs it. The text of the prompt is counted and printed
 * (prompt-print.ts), never kept. Bodies come from anybody: whatever is wrong with one, facts are missing and nothing else
 * happens.
 */
import type { PrintKey } from './prompt-print.js';
import { printPrompt } from './prompt-print.js';
import type { JsonObject } from './engines/claim.js';
import { asCount, asList, asObject } from './engines/claim.js';

export { askForTelemetry } from './telemetry-request.js';

export interface RequestFacts {
  /** The end of its path, one of those on which engines generate; `other` for the rest, so that there are only so many. */
  readonly route: string;
  readonly isGeneration: boolean;
  readonly model: string | null;
  readonly isStream: boolean;
  readonly promptPrint: readonly number[] | null;
  /** Of all messages together, UTF-16 units; null where the prompt is given as tokens. */
  readonly promptCharacters: number | null;
  readonly maxTokens: number | null;
}

export interface GivenRequest {
  /** With or without a query. */
  readonly path: string;
  readonly contentType?: string | undefined;
  readonly contentEncoding?: string | undefined;
  /** Empty where it was not kept. */
  readonly body: Uint8Array;
}

const routes: readonly string[] = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/responses',
  '/v1/messages',
  '/generate',
  '/generate_stream',
  '/chat/completions',
  '/completions',
  '/completion',
];

const mostNameCharacters = 256;
const usualType = 'application/json';

export function readRequest(given: GivenRequest, key: PrintKey): RequestFacts {
  const route = findRoute(given.path);
  const body = route === 'other' ? undefined : parseBody(given);
  const silent = { route, isGeneration: route !== 'other', promptPrint: null, promptCharacters: null };
  if (body === undefined) return { ...silent, model: null, isStream: false, maxTokens: null };
  const { last, characters } = readPrompt(body);
  const parameters = asObject(body.sampling_params) ?? asObject(body.parameters) ?? {};
  return {
    ...silent,
    model: typeof body.model === 'string' ? body.model.slice(0, mostNameCharacters) : null,
    isStream: body.stream === true || route === '/generate_stream',
    promptPrint: last === null ? null : printPrompt(last, key),
    promptCharacters: characters,
    maxTokens:
      asCount(body.max_completion_tokens) ??
      asCount(body.max_tokens) ??
      asCount(body.n_predict) ??
      asCount(body.max_output_tokens) ??
      asCount(parameters.max_new_tokens) ??
      null,
  };
}

function findRoute(target: string): string {
  const path = target.includes('?') || target.includes('#') ? target.split(/[?#]/, 1)[0]! : target;
  for (const route of routes) if (path.endsWith(route)) return route;
  return 'other';
}

function parseBody({ body, contentType = '', contentEncoding = '' }: GivenRequest): JsonObject | undefined {
  const isPlain = contentEncoding === '' || /^\s*(?:identity)?\s*$/i.test(contentEncoding);
  // Many clients send JSON under no type, or that of a form.
  const isOther = contentType !== usualType && /^\s*(?:multipart|image|audio|video)\//i.test(contentType);
  if (body.length === 0 || !isPlain || isOther) return undefined;
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  try {
    return asObject(JSON.parse(bytes.toString()));
  } catch {
    return undefined;
  }
}

interface PromptText {
  /** The text that ends the prompt: of the last message of a user, or the prompt itself. */
  readonly last: string | null;
  readonly characters: number | null;
}

function readPrompt(body: JsonObject): PromptText {
  const messages = asList(body.messages) ?? asList(body.input);
  if (messages !== undefined) return readMessages(messages);
  const given = body.prompt ?? body.text ?? body.inputs ?? body.input;
  if (typeof given === 'string') return { last: given, characters: given.length };
  const texts = (asList(given) ?? []).filter((each) => typeof each === 'string');
  if (texts.length > 0) return { last: texts.at(-1)!, characters: sumLengths(texts) };
  const tokens = asList(given) ?? asList(body.input_ids) ?? [];
  return { last: tokens.length === 0 ? null : showTokens(tokens), characters: null };
}

function readMessages(messages: readonly unknown[]): PromptText {
  let characters = 0;
  let lastOfUser: string | null = null;
  let lastOfAll: string | null = null;
  for (const each of messages) {
    const message = asObject(each);
    if (message === undefined) continue;
    const text = textOf(message.content);
    characters += text.length;
    if (text === '') continue;
    lastOfAll = text;
    if (message.role === 'user') lastOfUser = text;
  }
  return { last: lastOfUser ?? lastOfAll, characters };
}

/** A string, or parts of which some are text. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  const parts = (asList(content) ?? []).map((part) => {
    const text = asObject(part)?.text;
    return typeof text === 'string' ? text : '';
  });
  return parts.join('\n').trim();
}

/** Numbers of tokens are as good as their text to find ends that are alike. */
function showTokens(tokens: readonly unknown[]): string {
  return tokens
    .slice(-64)
    .map((token) => (typeof token === 'number' ? token : '?'))
    .join(' ');
}

function sumLengths(texts: readonly string[]): number {
  return texts.reduce((sum, { length }) => sum + length, 0);
}
