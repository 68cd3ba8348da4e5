/** One request and its response, from the client to an engine and back; ends exactly once. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ErrorResponse } from './error-response.js';
import { sendError } from './error-response.js';
import type { ExchangeEnding, RequestHead, Route, Watcher } from './exchange-route.js';
import { headersFor } from './exchange-route.js';
import type { BodyAllowance, HeldBody } from './held-body.js';
import { holdBody } from './held-body.js';
import { pairsOf, valuesOf } from './message-headers.js';
import type { ResponseEnding, ResponseTimeouts } from './pass-through.js';
import { breakOff, passRequestBody, ResponsePassage } from './pass-through.js';
import type { Strip } from './telemetry-request.js';
import type { Outgoing, UpstreamFailure } from './upstream.js';

export interface ExchangeLimits {
  readonly requestBytes: number;
  /** Larger bodies pass unread. */
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

const tooLarge: ErrorResponse = {
  status: 413,
  message: 'The request body is too large.',
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
    request.on('error', () => undefined); // the response's 'close' follows
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

  /** @param body undefined where it was not read; then `pieces` is its beginning */
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
    const isChunked = valuesOf(head.rawHeaders, 'transfer-encoding').length > 0;
    try {
      this.outgoing = route.upstream.open(
        { method: head.method, path: request.url!, headers: headersFor(head, route, isChunked) },
        {
          onResponse: (incoming) => {
            this.pass(incoming, route.strip);
          },
          onFailure: (failure) => {
            this.fail(failure);
          },
        },
      );
    } catch {
      this.refuse({
        status: 400,
        message: 'The path contains invalid characters.',
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

  private pass(incoming: IncomingMessage, strip: Strip | undefined): void {
    const { request, response, settings } = this;
    // The engine responded early and will not read the rest of the request.
    if (!request.complete) response.shouldKeepAlive = false;
    this.held?.release();
    this.watcher?.onStart(incoming);
    this.passage = new ResponsePassage(incoming, response, settings.timeouts, {
      onBytes: (bytes) => this.watcher?.onBytes(bytes),
      onEnd: (ending) => {
        this.finish(ending);
      },
    });
    this.passage.start(strip);
  }

  private finish(ending: ResponseEnding): void {
    if (ending === 'complete') {
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
    sendError(this.response, { status, message, code: `upstream_${kind.replaceAll('-', '_')}` });
    this.end('upstream-failed', status);
  }

  private refuse(error: ErrorResponse): void {
    this.abandonBody();
    if (!sendError(this.response, error)) breakOff(this.response);
    this.end('refused', error.status);
  }

  /** The client closed the connection. */
  private leave(): void {
    this.passage?.stop();
    this.outgoing?.abandon();
    this.end('client-left', this.response.headersSent ? this.response.statusCode : 0);
  }

  /** Closes the connection after the response instead of waiting for the rest of the body. */
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
