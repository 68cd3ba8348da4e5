/** How much one client, and all of them together, may ask for. */
import { parseJsonText } from '../core/json-text.js';
import { ApiError, badRequest } from './api-error.js';
import type { AnswerRequest } from './answer-request.js';

export interface ServerLimits {
  readonly bodyBytes: number;
  /** The model's context where it is undefined. */
  readonly promptTokens: number | undefined;
  readonly newTokens: number | undefined;
  /** Answers to one request: its prompts times `n`. */
  readonly choices: number;
  /** Answers that wait for others to end. */
  readonly queue: number;
  /** From the arrival of a request; an answer that is not finished then ends with what it has. */
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

/** `contextLength` of the model: as in vLLM, no answer can be asked to be longer. */
export function checkAgainst(limits: ServerLimits, contextLength: number, request: AnswerRequest): void {
  const { maxNewTokens = 1, prompts } = request;
  const most = Math.min(limits.newTokens ?? Infinity, contextLength);
  if (maxNewTokens > most) {
    const reason = most === contextLength ? 'the context length of the model' : 'the limit of this server';
    throw badRequest(
      `max_tokens is ${maxNewTokens}; at most ${most} are allowed, which is ${reason}.`,
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
    ...{ status: 429, code: 'queue_full' },
    headers: { 'retry-after': String(Math.min(60, Math.max(1, Math.ceil(seconds)))) },
  });
}

/** The body as JSON; refused by its size before it is read, and as soon as it turns out larger than it said. */
export async function readJsonBody(
  request: Request,
  { bodyBytes }: Pick<ServerLimits, 'bodyBytes'>,
): Promise<unknown> {
  const type = request.headers.get('content-type') ?? '';
  // A page in a browser cannot send this to another origin without being asked for leave.
  if (!/^application\/json\s*(;|$)/i.test(type))
    throw new ApiError('The content type is not application/json.', {
      status: 415,
      code: 'unsupported_media_type',
    });
  const bytes = await readBytes(request, bodyBytes);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw badRequest('The body is not UTF-8 text.', undefined, 'invalid_json');
  }
  try {
    return parseJsonText(text);
  } catch {
    throw badRequest('The body is not valid JSON.', undefined, 'invalid_json'); // the cause would quote it
  }
}

async function readBytes(request: Request, most: number): Promise<Uint8Array> {
  const tooLarge = (): ApiError =>
    new ApiError(`The body has more than ${most} bytes.`, {
      ...{ status: 413, code: 'body_too_large', headers: { connection: 'close' } },
    });
  if (Number(request.headers.get('content-length') ?? 0) > most) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of (request.body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    if (size > most) throw tooLarge();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
