/**
 * One request and its response, from the client to an engine and back, with backpressure; ends exactly once. The watcher
 * reads each piece of the response after it was passed on, so reading delays nothing.
 */
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import type { ExchangeEnding, ExchangeSettings, RequestHead, Router, Watcher } from './exchange-route.js';
import type { ErrorResponse, RawHeaders } from './message-headers.js';
import { headersForEngine, headersToPass, sendError, valueOf } from './message-headers.js';
import type { ResponseStrip, Strip } from './telemetry-request.js';
import { createResponseStrip } from './telemetry-request.js';
import type { Upstream, UpstreamFailure } from './upstream.js';
import { describeFailure } from './upstream.js';

const tooLarge = { status: 413, message: 'The request body is too large.', code: 'request_too_large' };
const badPath = { status: 400, message: 'The path contains invalid characters.', code: 'bad_request' };
const withoutLength: ReadonlySet<string> = new Set(['content-length']);
/** Node treats longer times as none. */
const maxTimerMs = 2 ** 31 - 1;

export class Exchange {
  private outgoing: ClientRequest | undefined;
  private incoming: IncomingMessage | undefined;
  private watcher: Watcher | undefined;
  private strip: ResponseStrip | undefined;
  private isConnected = false;
  private isSent = false;
  private hasBody = false;
  /** Of the response, in bytes; Infinity where it is not known. */
  private left = Infinity;
  private isStallWatched = false;
  private isOver = false;
  private held = 0;
  private timer: NodeJS.Timeout | undefined;
  private readonly head: RequestHead;

  constructor(
    private readonly request: IncomingMessage,
    private readonly response: ServerResponse,
    private readonly router: Router,
    private readonly settings: ExchangeSettings,
  ) {
    const { method = '', url = '', rawHeaders } = request;
    const query = url.indexOf('?');
    this.head = { method, path: query < 0 ? url : url.slice(0, query), rawHeaders };
  }

  start(): void {
    const { request, response, head } = this;
    const { requestSize, readSize } = this.settings.limits;
    request.on('error', ignore); // the response's 'close' follows
    response.on('error', ignore);
    response.once('close', () => {
      if (this.isOver) return;
      const isComplete = this.left === 0;
      if (!isComplete) this.outgoing?.destroy();
      this.end(isComplete ? 'complete' : 'client-left', response.headersSent ? response.statusCode : 0);
    });
    const announced = Number(valueOf(head.rawHeaders, 'content-length') ?? 0);
    if (announced > requestSize) this.refuse(tooLarge);
    else if (!this.router.wantsBody(head) || announced > readSize) this.send(undefined, []);
    else this.holdBody();
  }

  /** Until the body is complete or exceeds a limit. */
  private holdBody(): void {
    const { request } = this;
    const { held, limits } = this.settings;
    const pieces: Buffer[] = [];
    const finish = (body: Buffer | undefined): void => {
      request.off('data', onData).off('end', onEnd);
      this.send(body, pieces);
    };
    const onData = (bytes: Buffer): void => {
      pieces.push(bytes);
      this.held += bytes.byteLength;
      held.bytes += bytes.byteLength;
      if (this.held <= limits.readSize && held.bytes <= limits.heldSize) return;
      request.pause();
      finish(undefined);
    };
    const onEnd = (): void => {
      finish(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces));
    };
    request.on('end', onEnd).on('data', onData);
  }

  /** @param body undefined where it was not read; then `pieces` is its beginning */
  private send(body: Buffer | undefined, pieces: readonly Buffer[]): void {
    if (this.isOver) return;
    const { request, head } = this;
    const route = this.router.decide(head, body);
    this.watcher = route.watcher;
    if (route.kind === 'refuse') {
      this.refuse(route.error);
      return;
    }
    const { upstream } = route;
    try {
      const headers = headersForEngine(head, route.isRead === true, route.body?.byteLength);
      this.outgoing = upstream.request(head.method, request.url!, headers);
    } catch {
      this.refuse(badPath);
      return;
    }
    const { outgoing } = this;
    this.listen(outgoing, upstream, route.strip);
    const sent = route.body ?? body;
    if (sent !== undefined) {
      outgoing.end(sent);
      this.expectResponse(upstream);
      return;
    }
    let left = this.settings.limits.requestSize - this.held;
    for (const piece of pieces) outgoing.write(piece);
    request.on('data', (bytes: Buffer) => {
      left -= bytes.byteLength;
      if (left < 0) this.refuse(tooLarge);
    });
    request.once('end', () => {
      this.expectResponse(upstream);
    });
    request.pipe(outgoing);
  }

  private listen(outgoing: ClientRequest, upstream: Upstream, strip: Strip | undefined): void {
    const { connect } = upstream.timeouts;
    outgoing.once('socket', (socket) => {
      this.isConnected = !socket.connecting;
      if (this.isConnected || this.isOver) return;
      this.wait(connect, () => {
        this.fail('connect-timeout');
      });
      socket.once(upstream.connectEvent, () => {
        clearTimeout(this.timer);
        this.isConnected = true;
        if (this.isSent) this.expectResponse(upstream);
      });
    });
    outgoing.once('response', (incoming) => {
      if (!this.isOver) this.pass(incoming, strip);
    });
    // An unrequested upgrade ends the connection for HTTP.
    outgoing.once('upgrade', (_response, socket) => {
      socket.destroy();
      this.fail('broken');
    });
    // Stays for the life of the request; failures after the response began come through the response.
    outgoing.on('error', () => {
      this.fail(this.isConnected ? 'broken' : 'unreachable');
    });
  }

  /** After the last byte of the request. */
  private expectResponse({ timeouts: { firstByte } }: Upstream): void {
    this.isSent = true;
    if (this.isOver || this.incoming !== undefined || this.outgoing?.socket?.connecting === true) return;
    this.wait(firstByte, () => {
      this.fail('first-byte-timeout');
    });
  }

  private pass(incoming: IncomingMessage, strip: Strip | undefined): void {
    const { request, response } = this;
    const { rawHeaders } = incoming;
    this.incoming = incoming;
    // The engine responded early and will not read the rest of the request.
    if (!request.complete) response.shouldKeepAlive = false;
    this.releaseBody();
    this.watcher!.onStart(incoming);
    this.strip = strip && createResponseStrip(strip, valueOf(rawHeaders, 'content-type') ?? '');
    response.sendDate = false; // the engine's own date passes
    const isWhole = this.strip?.isWhole === true;
    if (!isWhole) this.writeHead(this.strip && withoutLength); // which changes
    const length = valueOf(rawHeaders, 'content-length');
    this.left = length === undefined || this.strip !== undefined ? Infinity : Number(length);
    incoming.on('data', this.passBytes);
    incoming.once('end', () => {
      if (this.isOver) return;
      const rest = this.strip?.finish();
      if (rest !== undefined && isWhole)
        this.writeHead(withoutLength, ['Content-Length', String(rest.byteLength)]);
      if (rest === undefined || rest.byteLength === 0)
        response.end(); // does nothing the second time
      else response.end(rest);
      this.end('complete', response.statusCode);
    });
    const breakOff = (): void => {
      if (this.isOver) return;
      // Bytes that came before the failure and wait for a slow client still pass.
      for (
        let rest = incoming.read() as Buffer | null;
        rest !== null;
        rest = incoming.read() as Buffer | null
      )
        this.passBytes(rest);
      this.breakOff();
    };
    incoming.once('error', breakOff);
    incoming.once('close', breakOff); // after 'end' it is over already
    this.waitForEngine();
    // The body mostly comes with the head, and both leave as one packet. The head of a stream must not wait for it.
    if (!isWhole && length === undefined)
      setImmediate(() => {
        if (!this.hasBody && !this.isOver) response.flushHeaders();
      });
  }

  private writeHead(without?: ReadonlySet<string>, added?: RawHeaders): void {
    const { statusCode = 502, statusMessage = '', rawHeaders } = this.incoming!;
    this.response.writeHead(statusCode, statusMessage, headersToPass(rawHeaders, without, added));
  }

  private readonly passBytes = (bytes: Buffer): void => {
    if (this.isOver) return;
    this.hasBody = true;
    const passed = this.strip === undefined ? bytes : this.strip.push(bytes);
    this.left -= bytes.byteLength;
    if (this.left === 0) this.response.end(passed);
    else if (passed.byteLength === 0 || this.response.write(passed)) this.timer?.refresh();
    else this.pauseUntilTaken();
    this.watcher!.onBytes(bytes);
  };

  /** The socket's timeout restarts with every byte the client reads. */
  private pauseUntilTaken(): void {
    const { response, incoming } = this;
    incoming!.pause();
    clearTimeout(this.timer);
    response.setTimeout(this.settings.timeouts.client);
    if (!this.isStallWatched)
      response.once('timeout', () => {
        this.outgoing!.destroy();
        response.destroy();
        this.end('client-left', response.statusCode);
      });
    this.isStallWatched = true;
    response.once('drain', () => {
      if (this.isOver) return;
      response.setTimeout(0);
      this.waitForEngine();
      incoming!.resume();
    });
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

  private fail(kind: UpstreamFailure): void {
    if (this.isOver || this.incoming !== undefined) return;
    const error = describeFailure(kind);
    this.abandon();
    sendError(this.response, error);
    this.end('upstream-failed', error.status);
  }

  private refuse(error: ErrorResponse): void {
    if (this.isOver) return;
    this.abandon();
    if (!sendError(this.response, error)) this.response.socket?.destroySoon();
    this.end('refused', error.status);
  }

  /** Sends what was passed on, then closes the connection within the message, as the engine did. */
  private breakOff(): void {
    const { response, outgoing } = this;
    if (this.isOver) return;
    outgoing!.destroy();
    if (response.socket === null) response.destroy();
    else response.socket.destroySoon();
    this.end('upstream-failed', response.statusCode);
  }

  /** Closes the connections after the response instead of waiting for the rest of the body. */
  private abandon(): void {
    if (this.outgoing !== undefined) this.request.unpipe(this.outgoing);
    this.outgoing?.destroy();
    if (!this.request.complete) this.response.shouldKeepAlive = false;
  }

  private releaseBody(): void {
    this.settings.held.bytes -= this.held;
    this.held = 0;
  }

  private end(ending: ExchangeEnding, status: number): void {
    if (this.isOver) return;
    this.isOver = true;
    clearTimeout(this.timer);
    this.releaseBody();
    this.watcher?.onEnd(ending, status);
  }
}

function ignore(): void {
  // Followed by 'close'.
}
