/**
 * Reads a response beside the proxy that passes its bytes on: it keeps little, changes nothing, and never throws. A JSON
 * body is kept up to a limit and read at its end; a stream is read event by event. Compressed responses are not read, so
 * the proxy asks engines for uncompressed ones.
 */
import { asCount, asObject } from '../engines/claim.js';
import { adapterOf, findSpeculation } from '../engines/engine-list.js';
import type { EngineName, Speculation } from '../observation.js';
import { createEventStream } from './event-stream.js';
import { StreamMeter } from './stream-meter.js';

export interface ReaderOptions {
  /** Longer JSON bodies are not read. */
  readonly bodyBytes?: number;
  /** Longer events are skipped. */
  readonly eventCharacters?: number;
  readonly contentEncoding?: string | undefined;
  /** As configured or seen before; bodies that show another engine win. */
  readonly engine?: EngineName | undefined;
}

export interface ReadResponse {
  readonly engine: EngineName;
  readonly model: string | null;
  readonly id: string | null;
  readonly promptTokens: number | null;
  readonly completionTokens: number | null;
  /** As the engine last reported it, or as estimated from a stream. */
  readonly speculation: Speculation | null;
  /** Why telemetry that was there was rejected, or nothing was read. */
  readonly refusal: string | null;
}

export interface ResponseReader {
  push(bytes: Uint8Array): void;
  finish(): ReadResponse;
}

const defaultBodyBytes = 8 << 20;
const maxNameCharacters = 256;

export function createResponseReader(contentType: string, options: ReaderOptions = {}): ResponseReader {
  const { contentEncoding = '' } = options;
  if (contentEncoding !== '' && !/^\s*identity\s*$/i.test(contentEncoding))
    return readNothing(`The response is compressed (${contentEncoding.slice(0, 40)}).`, options);
  const kind = (contentType.split(';', 1)[0] ?? '').trim().toLowerCase();
  if (kind === 'text/event-stream') return readEvents(options);
  if (kind === 'application/json' || kind.endsWith('+json')) return readBody(options);
  return readNothing(`The response is ${kind === '' ? 'of no type' : kind.slice(0, 40)}.`, options);
}

/** What bodies and chunks contain; later ones win. */
class Facts {
  engine: EngineName;
  model: string | null = null;
  id: string | null = null;
  promptTokens: number | null = null;
  completionTokens: number | null = null;
  speculation: Speculation | null = null;
  refusal: string | null = null;

  constructor({ engine = 'unknown' }: ReaderOptions) {
    this.engine = engine;
  }

  take(body: unknown): void {
    const { engine, speculation, refusal } = findSpeculation(body);
    // Our server has vLLM's fields, and signs only some of its chunks.
    if (engine !== 'unknown' && !(engine === 'vllm' && this.engine === 'mistletoe')) this.engine = engine;
    if (speculation !== null) [this.speculation, this.refusal] = [speculation, null];
    else if (refusal !== null) [this.speculation, this.refusal] = [null, refusal];
    const given = asObject(Array.isArray(body) ? body[0] : body);
    if (given === undefined) return;
    // Events of /v1/responses and /v1/messages wrap the response.
    const response = asObject(given.response) ?? asObject(given.message) ?? given;
    const meta = asObject(response.meta_info);
    const usage = asObject(response.usage) ?? asObject(given.usage) ?? meta;
    this.model = asName(response.model) ?? this.model;
    this.id = asName(response.id) ?? asName(meta?.id) ?? this.id;
    this.promptTokens =
      asCount(usage?.prompt_tokens) ??
      asCount(usage?.input_tokens) ??
      asCount(response.tokens_evaluated) ??
      this.promptTokens;
    this.completionTokens =
      asCount(usage?.completion_tokens) ??
      asCount(usage?.output_tokens) ??
      asCount(response.tokens_predicted) ??
      asCount(asObject(response.timings)?.predicted_n) ??
      this.completionTokens;
  }

  close(changes: Partial<Pick<ReadResponse, 'speculation' | 'refusal'>> = {}): ReadResponse {
    const { engine, model, id, promptTokens, completionTokens, speculation, refusal } = this;
    return { engine, model, id, promptTokens, completionTokens, speculation, refusal, ...changes };
  }
}

function asName(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value.slice(0, maxNameCharacters) : null;
}

function readNothing(refusal: string, options: ReaderOptions): ResponseReader {
  return { push: () => undefined, finish: () => new Facts(options).close({ refusal }) };
}

function readBody(options: ReaderOptions): ResponseReader {
  const { bodyBytes = defaultBodyBytes } = options;
  let pieces: Uint8Array[] = [];
  let bytes = 0;
  return {
    push(piece) {
      bytes += piece.length;
      if (bytes > bodyBytes) pieces = [];
      else if (piece.length > 0) pieces.push(piece);
    },
    finish() {
      const facts = new Facts(options);
      if (bytes > bodyBytes)
        return facts.close({ refusal: `The response has more than ${bodyBytes} bytes.` });
      const [first] = pieces;
      const whole =
        pieces.length === 1
          ? Buffer.from(first!.buffer, first!.byteOffset, first!.length)
          : Buffer.concat(pieces);
      const body = parse(whole.toString());
      if (body === undefined) return facts.close({ refusal: 'The response is not JSON.' });
      facts.take(body);
      return facts.close();
    },
  };
}

function readEvents(options: ReaderOptions): ResponseReader {
  const events = createEventStream(options.eventCharacters);
  const facts = new Facts(options);
  const meter = new StreamMeter();
  return {
    push(piece) {
      for (const data of events.push(piece)) {
        const body = data === '[DONE]' || data === '' ? undefined : asObject(parse(data));
        if (body === undefined) continue;
        facts.take(body);
        meter.add(body);
      }
    },
    finish() {
      const { engine, speculation, refusal, completionTokens } = facts;
      if (speculation !== null || refusal !== null) return facts.close();
      const chunk = adapterOf(engine)?.chunk;
      return facts.close({ speculation: meter.estimate(chunk, completionTokens) });
    },
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
