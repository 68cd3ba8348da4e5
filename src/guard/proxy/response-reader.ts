/**
 * Reads a response beside the proxy that passes its bytes on: it keeps little, changes nothing, and never throws. A JSON
 * body is kept up to a limit and read at its end; a stream is read event by event. Compressed responses are not read.
 */
import { asCount, asObject, parseJson } from '../engines/claim.js';
import { adapterOf, findSpeculation } from '../engines/engine-list.js';
import type { EngineName, Speculation } from '../observation.js';
import { StreamMeter } from './stream-meter.js';

export interface ReaderOptions {
  /** Longer JSON bodies are not read. */
  readonly bodyBytes?: number;
  readonly contentEncoding?: string | undefined;
  /** As configured or seen before; bodies that show another engine win. */
  readonly engine?: EngineName | undefined;
}

export type ReadResponse = Pick<Facts, 'engine' | 'id' | 'promptTokens' | 'completionTokens' | 'speculation'>;

export interface ResponseReader {
  push(bytes: Uint8Array): void;
  finish(): ReadResponse;
}

const defaultBodyBytes = 8 << 20;
const maxNameCharacters = 256;

export function createResponseReader(contentType: string, options: ReaderOptions = {}): ResponseReader {
  const { contentEncoding = '', engine = 'unknown', bodyBytes = defaultBodyBytes } = options;
  const facts = new Facts(engine);
  const kind = contentType.split(';', 1)[0]!.trim().toLowerCase();
  const isPlain = contentEncoding === '' || /^\s*identity\s*$/i.test(contentEncoding);
  if (isPlain && kind === 'text/event-stream') return readEvents(facts);
  if (isPlain && (kind === 'application/json' || kind.endsWith('+json'))) return readBody(facts, bodyBytes);
  return { push: () => undefined, finish: () => facts };
}

/** What bodies and chunks contain; later ones win. */
class Facts {
  id: string | null = null;
  promptTokens: number | null = null;
  completionTokens: number | null = null;
  /** As the engine last reported it, or as estimated from a stream. */
  speculation: Speculation | null = null;
  /** Telemetry was there and contradicts itself. */
  isRefused = false;

  constructor(public engine: EngineName) {}

  take(body: unknown): void {
    const { engine, speculation, refusal } = findSpeculation(body);
    // Our server has vLLM's fields, and signs only some of its chunks.
    if (engine !== 'unknown' && !(engine === 'vllm' && this.engine === 'mistletoe')) this.engine = engine;
    if (speculation !== null || refusal !== null)
      [this.speculation, this.isRefused] = [speculation, refusal !== null];
    const given = asObject(Array.isArray(body) ? body[0] : body);
    if (given === undefined) return;
    // Events of /v1/responses and /v1/messages wrap the response.
    const response = asObject(given.response) ?? asObject(given.message) ?? given;
    const meta = asObject(response.meta_info);
    const usage = asObject(response.usage) ?? asObject(given.usage) ?? meta;
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
}

function asName(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value.slice(0, maxNameCharacters) : null;
}

function readBody(facts: Facts, maxBytes: number): ResponseReader {
  let pieces: Uint8Array[] = [];
  let bytes = 0;
  return {
    push(piece) {
      bytes += piece.length;
      if (bytes > maxBytes) pieces = [];
      else pieces.push(piece);
    },
    finish() {
      if (bytes > maxBytes) return facts;
      const [first] = pieces;
      const isOne = pieces.length === 1 && Buffer.isBuffer(first);
      const body = parseJson((isOne ? first : Buffer.concat(pieces)).toString());
      if (body !== undefined) facts.take(body);
      return facts;
    },
  };
}

function readEvents(facts: Facts): ResponseReader {
  const events = createEventStream();
  const meter = new StreamMeter();
  return {
    push(piece) {
      for (const data of events.push(piece)) {
        const body = data === '[DONE]' || data === '' ? undefined : asObject(parseJson(data));
        if (body === undefined) continue;
        facts.take(body);
        meter.add(body);
      }
    },
    finish() {
      const { engine, speculation, isRefused, completionTokens } = facts;
      if (speculation === null && !isRefused)
        facts.speculation = meter.estimate(adapterOf(engine)?.chunk, completionTokens);
      return facts;
    },
  };
}

/**
 * Server-sent events (WHATWG HTML, section 9.2.6): the data of complete events, in any cut of the bytes. Longer lines and
 * events are skipped, so memory is bounded.
 */
export function createEventStream(maxCharacters = 1 << 20) {
  const decoder = new TextDecoder();
  let rest = ''; // an unfinished line
  let endsWithReturn = false; // a line feed after it belongs to the same line end
  let data: string | undefined;
  let isSkipped = false;

  const endLine = (line: string, events: string[]): void => {
    if (line === '') {
      if (!isSkipped && data !== undefined) events.push(data);
      data = undefined;
      isSkipped = false;
      return;
    }
    const value = line.length > maxCharacters ? undefined : dataOf(line);
    if (line.length > maxCharacters || (data?.length ?? 0) + (value?.length ?? 0) > maxCharacters)
      isSkipped = true;
    else if (value !== undefined) data = data === undefined ? value : `${data}\n${value}`;
  };

  return {
    /** Returns the data of the events that these bytes complete. */
    push(bytes: Uint8Array): readonly string[] {
      let text = decoder.decode(bytes, { stream: true });
      if (text === '') return [];
      if (endsWithReturn && text.startsWith('\n')) text = text.slice(1);
      endsWithReturn = text.endsWith('\r');
      const lines = text.split(text.includes('\r') ? /\r\n?|\n/ : '\n');
      lines[0] = rest + lines[0]!;
      rest = lines.pop()!.slice(0, maxCharacters + 1); // enough to be too long
      const events: string[] = [];
      for (const line of lines) endLine(line, events);
      return events;
    },
  };
}

/** Undefined for other fields, also those whose name starts with "data". */
function dataOf(line: string): string | undefined {
  if (line === 'data') return '';
  return line.startsWith('data:') ? line.slice(line[5] === ' ' ? 6 : 5) : undefined;
}
