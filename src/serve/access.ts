/**
 * API keys. They are kept as hashes; a given key is compared with all of them in constant time.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { MistletoeError } from '../core/errors.js';
import { readTextFile } from '../core/files.js';
import { ApiError, badRequest } from './api-error.js';
import { parseJsonText, TooManyValues } from '../core/json-text.js';
import type { AnswerRequest } from './answer-request.js';

/** The name of the key in the header. Throws if there is none or it is unknown. */
export type Access = (authorization: string | null) => string;

export interface NamedKey {
  /** For logs. */
  readonly name: string;
  readonly key: string;
}

const anybody = 'anonymous';
const minKeyLength = 8;
const maxFileBytes = 2 ** 20;

export function createAccess(keys: readonly NamedKey[]): Access {
  const known = keys.map(({ name, key }) => ({ name, hash: hashOf(key) }));
  if (known.length === 0) return () => anybody;
  return (authorization) => {
    const [, shown] = /^Bearer +(\S+) *$/i.exec(authorization ?? '') ?? [];
    const hash = hashOf(shown ?? '');
    let found: string | undefined;
    for (const entry of known) if (timingSafeEqual(entry.hash, hash)) found = entry.name;
    if (found !== undefined && shown !== undefined) return found;
    throw new ApiError(
      shown === undefined
        ? 'No key was given; an Authorization header with a bearer key was expected.'
        : 'The key is unknown.',
      { status: 401, code: 'invalid_api_key', headers: { 'www-authenticate': 'Bearer' } },
    );
  };
}

/** One key per line, or a name and a key; lines that begin with # are comments. */
export function parseKeys(text: string, place: string): readonly NamedKey[] {
  const lines = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  const keys = lines.map((line, index) => {
    const words = line.split(/\s+/);
    const [name, key] = words.length === 1 ? [`key-${index + 1}`, words[0]!] : [words[0]!, words[1]!];
    if (words.length > 2 || key.length < minKeyLength) {
      throw new MistletoeError(
        'usage',
        `Key ${index + 1} of ${place} ${words.length > 2 ? `has ${words.length} words` : `has ${key.length} characters`}; a key of ${minKeyLength} characters or more, alone or after a name, was expected.`,
        { hint: 'Make one with: openssl rand -hex 24' },
      );
    }
    return { name, key };
  });
  if (keys.length > 0) return keys;
  throw new MistletoeError('usage', `${place} has no key.`, {
    hint: 'Write one key a line; make one with: openssl rand -hex 24',
  });
}

export async function readKeys(path: string): Promise<readonly NamedKey[]> {
  const text = await readTextFile(path, maxFileBytes);
  if (text !== undefined) return parseKeys(text, path);
  throw new MistletoeError('usage', `The key file ${path} does not exist.`, {
    hint: 'Give a file with one key a line.',
  });
}

function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

// Limits for one client and for all together.
export interface ServerLimits {
  readonly bodyBytes: number;
  /** Default: the model's context. */
  readonly promptTokens: number | undefined;
  readonly newTokens: number | undefined;
  /** Answers to one request: its prompts times `n`. */
  readonly choices: number;
  readonly queue: number;
  /** Since the request arrived; an unfinished answer then ends with what it has. */
  readonly seconds: number;
}

export const defaultLimits: ServerLimits = {
  bodyBytes: 4 * 2 ** 20,
  promptTokens: undefined,
  newTokens: undefined,
  choices: 16,
  queue: 64,
  seconds: 600,
};

/** @param contextLength of the model: as in vLLM, the largest max_tokens */
export function checkAgainst(limits: ServerLimits, contextLength: number, request: AnswerRequest): void {
  const { maxNewTokens = 1, prompts } = request;
  const max = Math.min(limits.newTokens ?? Infinity, contextLength);
  if (maxNewTokens > max) {
    const reason = max === contextLength ? 'the context length of the model' : 'the limit of this server';
    throw badRequest(
      `max_tokens is ${maxNewTokens}; at most ${max} are allowed, which is ${reason}.`,
      'max_tokens',
    );
  }
  const asked = prompts.length * request.choices;
  if (asked > limits.choices)
    throw badRequest(
      `${asked} answers were asked for at once; at most ${limits.choices} are given here.`,
      'n',
    );
}

export function tooBusy(waiting: number, seconds: number): ApiError {
  return new ApiError(`${waiting} answers are waiting already; try again later.`, {
    status: 429,
    code: 'queue_full',
    headers: { 'retry-after': String(Math.min(60, Math.max(1, Math.ceil(seconds)))) },
  });
}

/** Sixteen prompts of 4,096 token ids. */
const minValues = 65_536;
/** Bodies of more bytes are parsed one in each turn of the event loop, so that other requests are answered in between. */
const maxQuickBytes = 2 ** 16;

let lastTurn: Promise<unknown> = Promise.resolve();

function takeTurn(): Promise<unknown> {
  lastTurn = lastTurn.then(() => setImmediate());
  return lastTurn;
}

/**
 * The body as JSON. Too large a body is refused by its declared length, while it is read, or before it is parsed.
 * @param contextLength of the model: a body has no more values (token ids, messages, fields), since the time to parse one
 *   depends on its values more than on its bytes
 */
export async function readJsonBody(
  request: Request,
  { bodyBytes }: ServerLimits,
  contextLength: number,
): Promise<unknown> {
  const type = request.headers.get('content-type') ?? '';
  // Browsers send this type to another origin only after a CORS preflight.
  if (!/^application\/json\s*(;|$)/i.test(type))
    throw new ApiError('The content type is not application/json.', {
      status: 415,
      code: 'unsupported_media_type',
    });
  const bytes = await readBytes(request, bodyBytes);
  if (bytes.length > maxQuickBytes) await takeTurn();
  const maxValues = Math.max(minValues, contextLength);
  try {
    return parseJsonText(new TextDecoder('utf-8', { fatal: true }).decode(bytes), maxValues);
  } catch (cause) {
    if (cause instanceof TooManyValues)
      throw new ApiError(`The body has more than ${maxValues} values (token ids, messages, and fields).`, {
        status: 413,
        code: 'body_too_large',
      });
    throw badRequest('The body is not JSON in UTF-8.', undefined, 'invalid_json'); // the cause would quote it
  }
}

async function readBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  const tooLarge = (): ApiError =>
    new ApiError(`The body has more than ${maxBytes} bytes.`, {
      status: 413,
      code: 'body_too_large',
      headers: { connection: 'close' },
    });
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of (request.body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    if (size > maxBytes) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
