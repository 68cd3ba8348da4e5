/**
 * One watched request: its response is read as it passes, and its end gives one observation. A fault while reading is
 * reported and costs nothing else.
 */
import { parseEngineName } from '../engines/engine-list.js';
import type { EngineName, Observation } from '../observation.js';
import type { ExchangeEnding, Watcher } from './exchange-route.js';
import { type RawHeaders, valueOf } from './message-headers.js';
import type { ResponseHead } from './response-parser.js';
import { type ReadResponse, type ResponseReader, createResponseReader } from './response-reader.js';

export interface WatchOptions {
  /** What is known before there is a response. */
  readonly about: Pick<Observation, 'id' | 'route' | 'tenant' | 'upstream' | 'measure' | 'isProbe'>;
  readonly engine: EngineName | undefined;
  /** Of the request. */
  readonly rawHeaders: RawHeaders;
  readonly onEnd: (observation: Observation) => void;
  readonly onFault: (cause: unknown) => void;
}

export class RequestWatch implements Watcher {
  private readonly startedAt = performance.now();
  private firstByteMs: number | null = null;
  private reader: ResponseReader | undefined;
  private isStream = false;
  private responseId: string | undefined;
  private model: string | undefined;

  /** @param readModel is called once, because it keeps the request's body */
  constructor(
    private readonly options: WatchOptions,
    private readModel: (() => string) | undefined,
  ) {}

  onSent(): void {
    this.model ??= this.readModel?.();
    this.readModel = undefined;
  }

  onStart({ rawHeaders, status }: ResponseHead): void {
    this.firstByteMs = performance.now() - this.startedAt;
    const contentType = valueOf(rawHeaders, 'content-type') ?? '';
    this.isStream = contentType.startsWith('text/event-stream');
    this.responseId = valueOf(rawHeaders, 'x-request-id');
    if (status < 200 || status >= 300) return;
    this.reader = createResponseReader(contentType, {
      contentEncoding: valueOf(rawHeaders, 'content-encoding'),
      engine: parseEngineName(valueOf(rawHeaders, 'x-mistletoe-engine')) ?? this.options.engine,
    });
  }

  onBytes(bytes: Buffer): void {
    try {
      this.reader?.push(bytes);
    } catch (cause) {
      this.reader = undefined;
      this.options.onFault(cause);
    }
  }

  onEnd(ending: ExchangeEnding, status: number): void {
    try {
      this.options.onEnd(this.observe(ending, status, this.reader?.finish()));
    } catch (cause) {
      this.options.onFault(cause);
    }
  }

  private observe(ending: ExchangeEnding, status: number, read: ReadResponse | undefined): Observation {
    this.onSent();
    const { about, engine, rawHeaders } = this.options;
    const { isStream, firstByteMs } = this;
    return {
      ...about,
      clientRequestId: idOf(valueOf(rawHeaders, 'x-request-id')),
      traceparent: idOf(valueOf(rawHeaders, 'traceparent')),
      engineRequestId: idOf(read?.id ?? this.responseId),
      model: this.model!,
      endedMs: Date.now(),
      engine: read?.engine ?? engine ?? 'unknown',
      status,
      ending,
      isStream,
      promptTokens: read?.promptTokens ?? null,
      completionTokens: read?.completionTokens ?? null,
      firstByteMs: firstByteMs === null ? null : round(firstByteMs),
      totalMs: round(performance.now() - this.startedAt),
      speculation: about.upstream === 'plain' ? null : (read?.speculation ?? null),
    };
  }
}

const maxIdCharacters = 128;

/** Ids come from clients: printable and short, or left out. */
function idOf(value: string | undefined): string | undefined {
  return value !== undefined && /^[\x21-\x7e]+$/.test(value) ? value.slice(0, maxIdCharacters) : undefined;
}

const round = (milliseconds: number): number => Math.round(milliseconds * 100) / 100;
