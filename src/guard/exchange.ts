/** One request and its answer: taken from the client, sent to an engine, passed back, and ended exactly once. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ErrorAnswer } from './error-answer.js';
import { answerError } from './error-answer.js';
import type { ExchangeEnding, RequestHead, Route, Watcher } from './exchange-route.js';
import { headersFor } from './exchange-route.js';
import type { BodyAllowance, HeldBody } from './held-body.js';
import { holdBody } from './held-body.js';
import type { RawHeaders } from './message-headers.js';
import { pairsOf, valuesOf } from './message-headers.js';
import type { ResponseEnding, ResponseTimeouts } from './pass-through.js';
import { breakOff, passRequestBody, ResponsePassage } from './pass-through.js';
import type { Outgoing, UpstreamFailure } from './upstream.js';

export interface ExchangeLimits {
  /** Largest body of a request. */
  readonly requestBytes: number;
  /** Largest body that is read; larger ones pass unread. */
  readonly readBytes: number;
}

export interface ExchangeSettings {
  readonly timeouts: ResponseTimeouts;
  readonly limits: ExchangeLimits;
  readonly allowance: BodyAllowance;
}

interface Decider {
  wantsBody(head: RequestHead): boolean;
  decide(head: RequestHead, body: Buffer | undefined): Route;
}

const tooLarge: ErrorAnswer = {
  status: 413,
  message: 'The request is larger than this server passes on.',
  code: 'request_too_large',
};

export class Exchange {
  private outgoing: Outgoing | undefined;
  private passage: ResponsePassage | undefined;
  private watcher: Watcher | undefined;
  private stopBody: (() => void) | undefined;
  private held: HeldBody | undefined;
  private isOver = false;
  private readonly head: RequestHead;

  constructor(
    private readonly request: IncomingMessage,
    private readonly response: ServerResponse,
    private readonly desk: Decider,
    private readonly settings: ExchangeSettings,
  ) {
    const { method = '', url = '', rawHeaders } = request;
    const query = url.indexOf('?');
    this.head = { method, path: query < 0 ? url : url.slice(0, query), rawHeaders };
  }

  start(): void {
    const { request, response, head, settings } = this;
    request.on('error', () => undefined); // told by the response's 'close'
    response.on('error', () => undefined);
    response.once('close', () => {
      if (!this.isOver) this.leave();
    });
    const announced = Number(valuesOf(head.rawHeaders, 'content-length')[0] ?? 0);
    if (announced > settings.limits.requestBytes) this.refuse(tooLarge);
    else if (!this.desk.wantsBody(head) || announced > settings.limits.readBytes) this.send(undefined, []);
    else {
      this.held = holdBody(request, settings.limits.readBytes, settings.allowance, (body, pieces) => {
        this.send(body, pieces);
      });
    }
  }

  /** @param body the whole of it, where it was read; else what is there of it comes first */
  private send(body: Buffer | undefined, pieces: readonly Buffer[]): void {
    if (this.isOver) return;
    const { request, head, settings } = this;
    const route = this.desk.decide(head, body);
    this.watcher = route.watcher;
    if (route.kind === 'refuse') {
      this.refuse(route.error);
      return;
    }
    const sent = route.body ?? body;
    const { responseHeaders } = route;
    const isChunked = valuesOf(head.rawHeaders, 'transfer-encoding').length > 0;
    try {
      this.outgoing = route.upstream.open(
        { method: head.method, path: request.url!, headers: headersFor(head, route, isChunked) },
        {
          onResponse: (answer) => {
            this.pass(answer, responseHeaders);
          },
          onFailure: (failure) => {
            this.fail(failure);
          },
        },
      );
    } catch {
      this.refuse({
        status: 400,
        message: 'The path holds characters that no path has.',
        code: 'bad_request',
      });
      return;
    }
    const outgoing = this.outgoing;
    if (sent !== undefined) {
      if (request.rawTrailers.length > 0 && isChunked)
        outgoing.request.addTrailers(pairsOf(request.rawTrailers));
      outgoing.request.end(sent);
      outgoing.expectAnswer();
      return;
    }
    for (const piece of pieces) outgoing.request.write(piece);
    const left = settings.limits.requestBytes - pieces.reduce((sum, { byteLength }) => sum + byteLength, 0);
    this.stopBody = passRequestBody(request, outgoing.request, left, {
      onEnd: () => {
        outgoing.expectAnswer();
      },
      onTooLarge: () => {
        outgoing.abandon();
        this.refuse(tooLarge);
      },
    });
  }

  private pass(answer: IncomingMessage, extra: RawHeaders | undefined): void {
    const { request, response, settings } = this;
    // An engine that answers before the request has ended will not read the rest, and we cannot know where it would end.
    if (!request.complete) response.shouldKeepAlive = false;
    this.held?.release();
    this.watcher?.onStart(answer);
    this.passage = new ResponsePassage(answer, response, settings.timeouts, {
      onBytes: (bytes) => this.watcher?.onBytes(bytes),
      onEnd: (ending) => {
        this.finish(ending);
      },
    });
    this.passage.start(extra);
  }

  private finish(ending: ResponseEnding): void {
    if (ending === 'complete') {
      // The last bytes may still be on their way; whether they arrive, nobody can know.
      this.end('complete', this.response.statusCode);
      return;
    }
    this.outgoing?.abandon();
    if (ending === 'client-stalled') this.response.destroy();
    else breakOff(this.response);
    this.end(ending === 'client-stalled' ? 'client-left' : 'upstream-failed', this.response.statusCode);
  }

  private fail(failure: UpstreamFailure): void {
    const { status, message, kind } = failure;
    this.abandonBody();
    answerError(this.response, { status, message, code: `upstream_${kind.replaceAll('-', '_')}` });
    this.end('upstream-failed', status);
  }

  private refuse(error: ErrorAnswer): void {
    this.abandonBody();
    if (!answerError(this.response, error)) breakOff(this.response);
    this.end('refused', error.status);
  }

  /** The client closed the connection: what runs for it is stopped. */
  private leave(): void {
    this.passage?.stop();
    this.outgoing?.abandon();
    this.end('client-left', this.response.headersSent ? this.response.statusCode : 0);
  }

  /** The rest of a body that nobody wants is not waited for: the connection ends with the answer. */
  private abandonBody(): void {
    this.stopBody?.();
    if (!this.request.complete) this.response.shouldKeepAlive = false;
  }

  private end(ending: ExchangeEnding, status: number): void {
    if (this.isOver) return;
    this.isOver = true;
    this.held?.release();
    this.watcher?.onEnd(ending, status);
  }
}
