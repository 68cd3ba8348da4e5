/**
 * Reads an answer beside the proxy that passes its bytes on: it is given every piece, keeps little, changes nothing and
 * never throws. A JSON body is kept up to a limit and read at its end; beyond the limit only its bytes are counted. Of a
 * stream every event is read as it comes. Compressed answers are not read: the proxy asks for plain ones where the operator
 * lets it change requests.
 */
import type { EngineName, PromptTail, Speculation } from './request-record.js';
import { createEventStream } from './event-stream.js';
import { findPromptTail } from './prompt-tail.js';
import { findSpeculation } from './engines/engine-list.js';
import { asCount, asObject } from './engines/claim.js';
import type { ChunkMeter, StreamChunk } from './stream-chunk.js';
import { createChunkMeter } from './stream-chunk.js';
import type { StreamEstimate } from './stream-estimate.js';
import { createStreamEstimator } from './stream-estimate.js';

export interface ReaderLimits {
  /** A longer JSON body is not read. */
  readonly bodyBytes?: number;
  /** A longer event is passed over. */
  readonly eventCharacters?: number;
  /** As the answer's header has it. */
  readonly contentEncoding?: string | undefined;
  /** What the header x-mistletoe-engine or the operator says; bodies that say otherwise win. */
  readonly engine?: EngineName | undefined;
}

export interface ReadResponse {
  readonly engine: EngineName;
  readonly model: string | null;
  readonly id: string | null;
  readonly usage: { readonly promptTokens: number | null; readonly completionTokens: number | null };
  /** As the engine tells it, in its last word on it. */
  readonly speculation: Speculation | null;
  /** Why telemetry that was there was not used. */
  readonly refusal: string | null;
  /** How unlikely the model finds the prompt's end, where the engine tells. */
  readonly promptTail: PromptTail | null;
  /** Of streams whose engine tells nothing. */
  readonly estimate: StreamEstimate | null;
  readonly bytes: number;
  /** Events with text. */
  readonly chunks: number;
  /** A stream that was closed by [DONE], or a whole JSON body. */
  readonly isWhole: boolean;
  /** Why nothing, or not everything, was read. */
  readonly unread: string | null;
}

export interface ResponseReader {
  push(bytes: Uint8Array, atMs: number): readonly StreamChunk[];
  finish(): ReadResponse;
}

const mostBodyBytes = 8 << 20;
const mostNameCharacters = 256;
const nothing: readonly StreamChunk[] = [];

export function createResponseReader(contentType: string, limits: ReaderLimits = {}): ResponseReader {
  const { contentEncoding = 'identity' } = limits;
  const kind = (contentType.split(';', 1)[0] ?? '').trim().toLowerCase();
  if (!/^(?:identity)?$/i.test(contentEncoding.trim()))
    return countBytes(`The answer is compressed (${contentEncoding.slice(0, 40)}).`, limits);
  if (kind === 'text/event-stream') return readEvents(limits);
  if (kind === 'application/json' || kind.endsWith('+json')) return readBody(limits);
  return countBytes(`The answer is ${kind === '' ? 'of no type' : kind.slice(0, 40)}.`, limits);
}

/** What bodies and chunks say, the later ones last. */
class Facts {
  engine: EngineName;
  model: string | null = null;
  id: string | null = null;
  promptTokens: number | null = null;
  completionTokens: number | null = null;
  speculation: Speculation | null = null;
  refusal: string | null = null;
  promptTail: PromptTail | null = null;

  constructor({ engine = 'unknown' }: ReaderLimits) {
    this.engine = engine;
  }

  /** Returns what this body tells of drafts. */
  take(body: unknown): Speculation | null {
    const { engine, speculation, refusal } = findSpeculation(body);
    // Our own server and others that speak like vLLM look like it.
    if (engine !== 'unknown' && !(engine === 'vllm' && this.engine === 'mistletoe')) this.engine = engine;
    if (speculation !== null) [this.speculation, this.refusal] = [speculation, null];
    else if (refusal !== null) [this.speculation, this.refusal] = [null, refusal];
    this.promptTail = findPromptTail(body) ?? this.promptTail;
    const answer = asObject(Array.isArray(body) ? body[0] : body);
    if (answer === undefined) return speculation;
    const meta = asObject(answer.meta_info);
    const usage = asObject(answer.usage) ?? meta;
    this.model = asName(answer.model) ?? this.model;
    this.id = asName(answer.id) ?? asName(meta?.id) ?? this.id;
    this.promptTokens =
      asCount(usage?.prompt_tokens) ?? asCount(answer.tokens_evaluated) ?? this.promptTokens;
    this.completionTokens =
      asCount(usage?.completion_tokens) ?? asCount(answer.tokens_predicted) ?? this.completionTokens;
    return speculation;
  }

  close(rest: Pick<ReadResponse, 'estimate' | 'bytes' | 'chunks' | 'isWhole' | 'unread'>): ReadResponse {
    const { engine, model, id, promptTokens, completionTokens, speculation, refusal, promptTail } = this;
    const usage = { promptTokens, completionTokens };
    return { engine, model, id, usage, speculation, refusal, promptTail, ...rest };
  }
}

function asName(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value.slice(0, mostNameCharacters) : null;
}

function countBytes(unread: string, limits: ReaderLimits): ResponseReader {
  let bytes = 0;
  return {
    push(piece) {
      bytes += piece.length;
      return nothing;
    },
    finish: () => new Facts(limits).close({ estimate: null, bytes, chunks: 0, isWhole: false, unread }),
  };
}

function readBody(limits: ReaderLimits): ResponseReader {
  const { bodyBytes = mostBodyBytes } = limits;
  let pieces: Uint8Array[] = [];
  let bytes = 0;
  return {
    push(piece) {
      bytes += piece.length;
      if (bytes > bodyBytes) pieces = [];
      else if (piece.length > 0) pieces.push(piece);
      return nothing;
    },
    finish() {
      const facts = new Facts(limits);
      const close = (unread: string | null): ReadResponse =>
        facts.close({ estimate: null, bytes, chunks: 0, isWhole: unread === null, unread });
      if (bytes > bodyBytes) return close(`The answer has more than ${bodyBytes} bytes.`);
      const [first] = pieces;
      const whole =
        pieces.length === 1
          ? Buffer.from(first!.buffer, first!.byteOffset, first!.length)
          : Buffer.concat(pieces);
      const body = parse(whole.toString());
      if (body === undefined) return close('The answer is not JSON.');
      facts.take(body);
      return close(null);
    },
  };
}

function readEvents(limits: ReaderLimits): ResponseReader {
  const events = createEventStream(limits.eventCharacters);
  const facts = new Facts(limits);
  const meter: ChunkMeter = createChunkMeter();
  const estimator = createStreamEstimator();
  let bytes = 0;
  let chunks = 0;
  let broken = 0;
  let isWhole = false;

  const read = (data: string, atMs: number): StreamChunk | undefined => {
    if (data === '[DONE]') isWhole = true;
    if (data === '[DONE]' || data === '') return undefined;
    const parsed = parse(data);
    const body = asObject(parsed);
    if (body === undefined) broken++;
    if (body === undefined) return undefined;
    const chunk = meter.measure(body, facts.take(body), atMs);
    if (chunk === undefined) return undefined;
    estimator.add(chunk);
    if (chunk.characters > 0) chunks++;
    return chunk;
  };

  return {
    push(piece, atMs) {
      bytes += piece.length;
      const complete = events.push(piece);
      if (complete.length === 0) return nothing;
      const found: StreamChunk[] = [];
      for (const data of complete) {
        const chunk = read(data, atMs);
        if (chunk !== undefined) found.push(chunk);
      }
      return found;
    },
    finish() {
      const isSilent = facts.speculation === null && !meter.hasSeveralChoices;
      const estimate = isSilent ? estimator.estimate(facts.completionTokens) : null;
      const unread = describeUnread(broken, events.skipped);
      return facts.close({ estimate, bytes, chunks, isWhole, unread });
    },
  };
}

function describeUnread(broken: number, skipped: number): string | null {
  if (broken + skipped === 0) return null;
  return `Of the stream ${broken} events are no JSON objects and ${skipped} too long.`;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
