/**
 * One request and its response, from the client to an engine and back, with backpressure; ends exactly once. The watcher
 * reads each piece of the response after it was passed on, so reading delays nothing.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type ExchangeEnding,
  type ExchangeSettings,
  HeldBody,
  type RequestHead,
  type Router,
  tooLarge,
  type Watcher,
} from './exchange-route.js';
import type { ErrorResponse, RawHeaders } from './message-headers.js';
import { headersForEngine, headersToPass, sendError, valueOf } from './message-headers.js';
import type { ResponseHead } from './response-parser.js';
import { type ResponseStrip, type Strip, createResponseStrip } from './telemetry-request.js';
import {
  type Connection,
  describeFailure,
  type Upstream,
  type UpstreamFailure,
  type UpstreamHandler,
} from './upstream.js';

const badPath = {
  status: 400,
  message: 'The path contains invalid characters or dot segments.',
  code: 'bad_request',
};
const withoutLength: ReadonlySet<string> = new Set(['content-length']);
/** 'close' follows. */
const ignore = (): void => undefined;
/** Node treats longer times as none. */
const maxTimerMs = 2 ** 31 - 1;
/** Up to here, a response is sent as text, which Node joins with the head. */
const maxJoinedBytes = 16 << 10;

export class Exchange implements UpstreamHandler {
  private upstream: Upstream | undefined;
  private connection: Connection | undefined;
  private strip: Strip | undefined;
  private stripping: ResponseStrip | undefined;
  /** Of the response, once it began. */
  private incoming: ResponseHead | undefined;
  private watcher: Watcher | undefined;
  private isSent = false;
  private hasBody = false;
  private isPaused = false;
  isOver = false;
  private timer: NodeJS.Timeout | undefined;
  private readonly head: RequestHead;
  private readonly body: HeldBody;

  constructor(
    private readonly request: IncomingMessage,
    private readonly response: ServerResponse,
    private readonly router: Router,
    private readonly settings: ExchangeSettings,
  ) {
    const { method = '', url = '', rawHeaders } = request;
    this.head = { method, path: url.split('?', 1)[0]!, rawHeaders };
    this.body = new HeldBody(request, settings);
  }

  start(): void {
    const { request, response, head } = this;
    const { requestSize, readSize } = this.settings.limits;
    request.on('error', ignore);
    response.on('error', ignore);
    response.once('close', () => {
      if (this.isOver) return;
      this.connection?.destroy();
      this.end('client-left', response.headersSent ? response.statusCode : 0);
    });
    const announced = Number(valueOf(head.rawHeaders, 'content-length') ?? 0);
    if (announced > requestSize) this.refuse(tooLarge);
    else if (!this.router.wantsBody(head) || announced > readSize) this.send(undefined);
    else
      this.body.read((body) => {
        this.send(body);
      });
  }

  /** @param body undefined where it was not read, or not to its end */
  private send(body: Buffer | undefined): void {
    if (this.isOver) return;
    const { request, head } = this;
    const route = this.router.decide(head, body);
    this.watcher = route.watcher;
    if (route.kind === 'refuse') {
      this.refuse(route.error);
      return;
    }
    const { upstream } = route;
    const headers = headersForEngine(head, route.isRead === true, route.body?.byteLength);
    const isChunked = valueOf(headers, 'transfer-encoding') !== undefined;
    const sent = { method: head.method, path: request.url!, headers, isChunked, body: route.body ?? body };
    this.upstream = upstream;
    this.strip = route.strip;
    try {
      this.connection = upstream.request(sent, this);
    } catch {
      this.refuse(badPath);
      return;
    }
    if (this.connection.isConnecting) this.failAfter(upstream.timeouts.connect, 'connect-timeout');
    if (sent.body === undefined) this.body.stream(this.connection, this);
    else this.expectResponse();
    route.watcher.onSent?.();
  }

  onDrain(): void {
    if (!this.isSent) this.request.resume();
  }

  onConnect(): void {
    clearTimeout(this.timer);
    if (this.isSent) this.expectResponse();
  }

  onFail(kind: UpstreamFailure): void {
    if (this.incoming === undefined) this.fail(kind);
    else this.breakOff();
  }

  /** After the last byte of the request. */
  expectResponse(): void {
    this.isSent = true;
    if (this.isOver || this.incoming !== undefined || this.connection?.isConnecting === true) return;
    this.failAfter(this.upstream!.timeouts.firstByte, 'first-byte-timeout');
  }

  onHead(incoming: ResponseHead): void {
    const { request, response, strip } = this;
    if (this.isOver) return;
    this.incoming = incoming;
    // The engine responded early and will not read the rest of the request.
    if (!request.complete) response.shouldKeepAlive = false;
    this.body.release();
    this.watcher!.onStart(incoming);
    if (strip !== undefined)
      this.stripping = createResponseStrip(strip, valueOf(incoming.rawHeaders, 'content-type') ?? '');
    response.sendDate = false; // the engine's own date passes
    this.waitForEngine();
    if (this.stripping?.isWhole === true) return; // its length changes
    this.writeHead(this.stripping && withoutLength);
    // The body mostly comes with the head, and both leave as one packet. The head of a stream must not wait for it.
    if (valueOf(incoming.rawHeaders, 'content-length') === undefined)
      setImmediate(() => {
        if (!this.hasBody && !this.isOver) response.flushHeaders();
      });
  }

  onBytes(bytes: Buffer, isLast: boolean): void {
    const { response, stripping } = this;
    if (this.isOver) return;
    this.hasBody = true;
    const passed = stripping === undefined ? bytes : stripping.push(bytes);
    if (stripping?.isWhole === false && !response.headersSent) this.writeHead(withoutLength);
    if (isLast && stripping === undefined) {
      if (passed.length <= maxJoinedBytes) response.end(passed.toString('latin1'), 'latin1');
      else response.end(passed);
    } else if (passed.byteLength > 0 && !response.write(passed)) this.pauseUntilTaken();
    else if (!this.isPaused) this.timer?.refresh();
    this.watcher!.onBytes(bytes);
  }

  onEnd(): void {
    const { response, stripping } = this;
    if (this.isOver) return;
    const rest = stripping?.finish();
    if (rest !== undefined && stripping?.isWhole === true)
      this.writeHead(withoutLength, ['Content-Length', String(rest.byteLength)]);
    response.end(rest); // does nothing the second time
    if (response.writableLength > 0) this.limitClient();
    this.end('complete', response.statusCode);
  }

  private writeHead(without?: ReadonlySet<string>, added: RawHeaders = []): void {
    const { status, reason, rawHeaders } = this.incoming!;
    this.response.writeHead(status, reason, [...headersToPass(rawHeaders, without), ...added]);
  }

  private pauseUntilTaken(): void {
    const { response, connection } = this;
    if (this.isPaused) return;
    this.isPaused = true;
    connection!.pause();
    clearTimeout(this.timer);
    this.limitClient();
    response.once('drain', () => {
      if (this.isOver) return; // the connection may serve another request
      this.isPaused = false;
      response.setTimeout(0);
      this.waitForEngine();
      connection!.resume();
    });
  }

  /** The socket's timeout restarts with every byte the client reads; Node then closes it, which ends the exchange. */
  private limitClient(): void {
    this.response.setTimeout(this.settings.timeouts.client);
  }

  private waitForEngine(): void {
    this.wait(this.settings.timeouts.idle, () => {
      this.breakOff();
    });
  }

  private wait(waitMs: number, action: () => void): void {
    clearTimeout(this.timer);
    this.timer = waitMs === 0 ? undefined : setTimeout(action, Math.min(waitMs, maxTimerMs));
  }

  private failAfter(waitMs: number, kind: UpstreamFailure): void {
    this.wait(waitMs, () => {
      this.fail(kind);
    });
  }

  private fail(kind: UpstreamFailure): void {
    if (this.isOver) return;
    const error = describeFailure(kind);
    this.abandon();
    sendError(this.response, error);
    this.end('upstream-failed', error.status);
  }

  refuse(error: ErrorResponse): void {
    if (this.isOver) return;
    this.abandon();
    if (!sendError(this.response, error)) this.response.socket?.destroySoon();
    this.end('refused', error.status);
  }

  /** Sends what was passed on, then closes the connection within the message, as the engine did. */
  private breakOff(): void {
    const { response } = this;
    if (this.isOver) return;
    if (!response.headersSent) {
      this.fail('broken');
      return;
    }
    const { socket } = response;
    this.connection?.destroy();
    this.limitClient();
    // To a client of HTTP/1.0 the end of the connection may be the end of the body, so only a reset shows the failure.
    if (socket === null) response.destroy();
    else if (response.useChunkedEncodingByDefault) socket.destroySoon();
    else socket.write('', () => socket.resetAndDestroy());
    this.end('upstream-failed', response.statusCode);
  }

  /** Does not wait for the rest of the request. */
  private abandon(): void {
    this.connection?.destroy();
    if (!this.request.complete) this.response.shouldKeepAlive = false;
  }

  private end(ending: ExchangeEnding, status: number): void {
    if (this.isOver) return;
    this.isOver = true;
    clearTimeout(this.timer);
    this.body.release();
    this.watcher?.onEnd(ending, status);
  }
}
