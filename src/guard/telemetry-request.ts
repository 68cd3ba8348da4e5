/**
 * Asking an engine for what it tells only when asked. Fields are written into the text of the request, and every other byte
 * stays: taking a body apart and writing it anew would round seeds of 64 bits and turn 1.0 into 1. A field that the client
 * has given is the client's. Used only where the operator lets requests be changed; a client of a stream then sees one more
 * chunk, that of the usage.
 */
import { promptLogprobFields } from './prompt-tail.js';
import type { EngineName } from './request-record.js';
import type { JsonObject } from './engines/claim.js';
import { asObject } from './engines/claim.js';

/**
 * The changed body, or undefined where nothing is to be added. With `promptLogprobs` also for how likely the model finds the tokens
 * of the prompt, which costs the engine the cache of prompts.
 */
export function askForTelemetry(
  engine: EngineName,
  body: Uint8Array,
  { promptLogprobs = false }: { readonly promptLogprobs?: boolean } = {},
): Uint8Array | undefined {
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
  let request: JsonObject | undefined;
  try {
    request = asObject(JSON.parse(text));
  } catch {
    return undefined;
  }
  // A body that is not UTF-8 would not come back byte for byte.
  if (request === undefined || Buffer.byteLength(text) !== body.length || text.includes('\ufffd'))
    return undefined;
  const fields = {
    ...missingFields(engine, request),
    ...(promptLogprobs ? promptLogprobFields(engine, request) : {}),
  };
  const changed = includeUsage(engine, request, addFields(text, text.indexOf('{'), fields));
  return changed === text ? undefined : Buffer.from(changed);
}

function missingFields(engine: EngineName, request: JsonObject): JsonObject {
  const isStream = request.stream === true;
  return {
    ...(engine === 'sglang' && isChat(request) && !('return_spec_tokens_details' in request)
      ? { return_spec_tokens_details: true }
      : {}),
    ...(engine === 'llama-cpp' && isStream && !('timings_per_token' in request)
      ? { timings_per_token: true }
      : {}),
    ...(needsUsage(engine, request) && !('stream_options' in request)
      ? { stream_options: { include_usage: true } }
      : {}),
  };
}

/** OpenAI's routes alone know these fields; SGLang's own tells unasked. */
const isChat = (request: JsonObject): boolean => 'messages' in request || 'prompt' in request;

const enginesWithUsage: readonly EngineName[] = [
  'vllm',
  'mistletoe',
  'sglang',
  'tensorrt-llm',
  'lmdeploy',
  'tgi',
];

function needsUsage(engine: EngineName, request: JsonObject): boolean {
  return enginesWithUsage.includes(engine) && request.stream === true && isChat(request);
}

/** Into options that the client has given without saying anything about the usage. */
function includeUsage(engine: EngineName, request: JsonObject, text: string): string {
  const options = asObject(request.stream_options);
  if (!needsUsage(engine, request) || options === undefined || 'include_usage' in options) return text;
  const at = findValue(text, 'stream_options');
  return at === undefined ? text : addFields(text, at, { include_usage: true });
}

/** Behind the brace at that place. */
function addFields(text: string, brace: number, fields: JsonObject): string {
  const written = JSON.stringify(fields).slice(1, -1);
  if (written === '') return text;
  const rest = text.slice(brace + 1);
  return `${text.slice(0, brace + 1)}${written}${/^\s*\}/.test(rest) ? '' : ','}${rest}`;
}

/** Where the value of a key of the outermost object begins; of a key that is there twice, the last. Of valid JSON. */
function findValue(text: string, key: string): number | undefined {
  let depth = 0;
  let found: number | undefined;
  let isKey = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') {
      const start = at;
      for (at++; text[at] !== '"'; at++) if (text[at] === '\\') at++;
      const isOurs = depth === 1 && isKey && JSON.parse(text.slice(start, at + 1)) === key;
      if (isOurs) found = text.indexOf(':', at) + 1;
      isKey = false;
    } else if (character === '{' || character === '[') {
      depth++;
      isKey = character === '{' && depth === 1;
    } else if (character === '}' || character === ']') depth--;
    else if (character === ',' && depth === 1) isKey = true;
  }
  if (found === undefined) return undefined;
  while (/\s/.test(text[found] ?? '')) found++;
  return text[found] === '{' ? found : undefined;
}
