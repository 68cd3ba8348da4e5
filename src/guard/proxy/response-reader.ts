/**
 * Reads a response beside the proxy that passes its bytes on: it keeps little, changes nothing, and never throws. A JSON
 * body is kept up to a limit and read at its end; a stream is read event by event. Compressed responses are not read.
 */
import type { EngineAdapter } from '../engines/adapter.js';
import { type JsonObject, asCount, asList, asObject, parseJson } from '../engines/claim.js';
import { adapterOf, findSpeculation } from '../engines/engine-list.js';
import type { EngineName, Speculation } from '../observation.js';

export interface ReaderOptions {
  /** Longer JSON bodies are not read. */
  readonly bodyBytes?: number;
  readonly contentEncoding?: string | undefined;
  /** As configured or seen before; bodies that show another engine win. */
  readonly engine?: EngineName | undefined;
}

export type ReadResponse = Pick<Facts, 'engine' | 'id' | 'promptTokens' | 'completionTokens' | 'speculation'>;

export interface ResponseReader {
  push(bytes: Buffer): void;
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
  let pieces: Buffer[] = [];
  let bytes = 0;
  return {
    push(piece) {
      bytes += piece.length;
      if (bytes > maxBytes) pieces = [];
      else pieces.push(piece);
    },
    finish() {
      if (bytes > maxBytes) return facts;
      const body = parseJson((pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)).toString());
      if (body !== undefined) facts.take(body);
      return facts;
    },
  };
}

function readEvents(facts: Facts): ResponseReader {
  const stream = new EventStream();
  const meter = new StreamMeter();
  const read = (events: readonly StreamEvent[]): void => {
    for (const { text, isWhole } of events) {
      const body = isWhole ? asObject(parseJson(dataOf(text))) : undefined;
      if (body === undefined) continue;
      facts.take(body);
      meter.add(body);
    }
  };
  return {
    push(piece) {
      read(stream.push(piece));
    },
    finish() {
      read(stream.finish());
      const { engine, speculation, isRefused, completionTokens } = facts;
      if (speculation === null && !isRefused)
        facts.speculation = meter.estimate(adapterOf(engine)?.chunk, completionTokens);
      return facts;
    },
  };
}

const maxEvent = 1 << 20;
/** A return at the end of the bytes may belong to the line feed that follows. */
const eventEnd = /(?:\r\n|\n|\r(?!\n|$)){2}/g;

/** Bytes of an end that can come before its last one. */
const maxOpenEnd = 3;

export interface StreamEvent {
  readonly text: string;
  readonly isWhole: boolean;
}

/**
 * Server-sent events as Latin-1 text, each with the blank line that ends it. Everything that is looked for in them is
 * ASCII. Memory is bounded: an event that is too long comes in pieces, which are not whole.
 */
export class EventStream {
  /** An unfinished event, searched for its end. Searching only the tail again keeps the time linear. */
  private searched = '';
  private tail = '';
  private isCut = false;

  push(bytes: Buffer): readonly StreamEvent[] {
    const text = this.tail + bytes.toString('latin1');
    const events: StreamEvent[] = [];
    let from = 0;
    for (const { index, 0: end } of text.matchAll(eventEnd)) {
      const next = index + end.length;
      events.push({ text: this.searched + text.slice(from, next), isWhole: !this.isCut });
      this.searched = '';
      this.isCut = false;
      from = next;
    }
    const open = Math.max(from, text.length - maxOpenEnd);
    this.searched += text.slice(from, open);
    this.tail = text.slice(open);
    if (this.searched.length <= maxEvent) return events;
    events.push({ text: this.searched, isWhole: false });
    this.searched = '';
    this.isCut = true;
    return events;
  }

  /** What is left at the end of the stream: an event only if its blank line ends with a return. */
  finish(): readonly StreamEvent[] {
    const text = this.searched + this.tail;
    [this.searched, this.tail] = ['', ''];
    return text === '' ? [] : [{ text, isWhole: !this.isCut && /[\r\n]\r$/.test(text) }];
  }
}

/** A stream may begin with a byte order mark. */
export function dataOf(event: string): string {
  const text = event.replace(/^\u00ef\u00bb\u00bf/, '');
  const lines = text.split(/\r\n?|\n/).filter((line) => line.startsWith('data:'));
  return lines.map((line) => line.slice(line[5] === ' ' ? 6 : 5)).join('\n');
}

const maxChoices = 128;
const minSteps = 3;

/**
 * Counts the chunks of a streamed response, per choice. vLLM, SGLang, TensorRT-LLM and our server send the tokens of one
 * step as one chunk, so tokens per chunk are the accepted length; llama.cpp and TGI send every token by itself. The first
 * chunk of a choice comes from the prompt's own pass. Servers that join steps (a stream interval above 1, a tool parser
 * that holds text back) make lengths look longer.
 */
export class StreamMeter {
  /** Chunks with text. */
  chunks = 0;
  private readonly choices = new Set<number>();
  private textLength = 0; // of servers that repeat the whole text
  private listedTokens: number | null = 0;

  add(body: JsonObject): void {
    const choices = asList(body.choices)
      ?.slice(0, maxChoices)
      .map((choice) => asObject(choice) ?? {});
    if (choices === undefined) this.count(0, this.measureOther(body), listedIn(body));
    for (const choice of choices ?? [])
      this.count(asCount(choice.index) ?? 0, measureChoice(choice), listedIn(choice));
  }

  /** @param chunk what a chunk is for this engine, if known */
  estimate(chunk: EngineAdapter['chunk'], completionTokens: number | null): Speculation | null {
    const tokens = completionTokens ?? this.listedTokens;
    const steps = this.chunks - this.choices.size;
    if (chunk === 'token' || tokens === null || steps < minSteps) return null;
    return {
      evidence: chunk === 'step' ? 'derived' : 'estimated',
      steps,
      accepted: Math.max(0, tokens - this.chunks),
      proposed: null,
      histogram: null,
      perStepAccepted: null,
      perStepProposed: null,
      draftLength: null,
      isTree: false,
    };
  }

  private count(choice: number, characters: number, tokens: number | null): void {
    if (characters === 0) return;
    this.chunks++;
    if (this.choices.size < maxChoices) this.choices.add(choice);
    this.listedTokens = this.listedTokens === null || tokens === null ? null : this.listedTokens + tokens;
  }

  private measureOther({ text, content, delta, token }: JsonObject): number {
    if (typeof content === 'string') return content.length; // llama.cpp
    if (typeof delta === 'string') return delta.length; // /v1/responses
    if (delta !== undefined) {
      const { text: added, thinking, partial_json: json } = asObject(delta) ?? {}; // /v1/messages
      return lengthOf(added) + lengthOf(thinking) + lengthOf(json);
    }
    if (token !== undefined) return lengthOf(asObject(token)?.text); // TGI
    if (typeof text !== 'string') return 0;
    const added = Math.max(0, text.length - this.textLength); // SGLang
    this.textLength = text.length;
    return added;
  }
}

const lengthOf = (value: unknown): number => (typeof value === 'string' ? value.length : 0);

/** UTF-16 units of text, reasoning, and arguments of tools. */
function measureChoice(choice: JsonObject): number {
  const delta = asObject(choice.delta);
  if (delta === undefined) return lengthOf(choice.text);
  const length = lengthOf(delta.content) + lengthOf(delta.reasoning_content ?? delta.reasoning);
  const calls = asList(delta.tool_calls)?.slice(0, 64) ?? [];
  return calls.reduce<number>(
    (sum, call) => sum + lengthOf(asObject(asObject(call)?.function)?.arguments),
    length,
  );
}

/** Tokens that are listed for another purpose: log-probabilities or ids. */
function listedIn(choice: JsonObject): number | null {
  const logprobs = asObject(choice.logprobs);
  for (const list of [logprobs?.content, logprobs?.tokens, choice.token_ids, choice.tokens]) {
    const { length } = asList(list) ?? [];
    if (length > 0) return length;
  }
  return null;
}
