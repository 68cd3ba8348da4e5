/** The proxy's server. It handles connections and messages only; a Router decides where each request goes. */
import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ErrorResponse } from './error-response.js';
import { sendError, rawErrorResponse } from './error-response.js';
import { Exchange } from './exchange.js';
import type { ExchangeLimits } from './exchange.js';
import type { RequestHead, Route } from './exchange-route.js';
import { createAllowance } from './held-body.js';
import { refuseRequest } from './message-headers.js';
import type { ResponseTimeouts } from './pass-through.js';

export interface ProxySettings {
  readonly timeouts: ResponseTimeouts & {
    /** Max time until a request has arrived with its body. */
    readonly requestMs: number;
  };
  readonly limits: ExchangeLimits & {
    /** All bodies held at one time; requests beyond it pass unread. */
    readonly heldBytes: number;
    readonly headerBytes: number;
  };
}

export interface Router {
  /** Whether the body is read before the request is forwarded. */
  wantsBody(head: RequestHead): boolean;
  /** @param body undefined where it was not wanted or is too large */
  decide(head: RequestHead, body: Buffer | undefined): Route;
}

export type { ExchangeEnding, RequestHead, Route, Watcher } from './exchange-route.js';

/** Idle client connections: longer than load balancers keep theirs. */
const keepAliveMs = 75_000;

export function createProxy(router: Router, settings: ProxySettings): Server {
  const { timeouts, limits } = settings;
  const allowance = createAllowance(limits.heldBytes);
  const server = createServer(
    {
      noDelay: true,
      keepAliveTimeout: keepAliveMs,
      headersTimeout: Math.min(60_000, timeouts.requestMs === 0 ? 60_000 : timeouts.requestMs),
      requestTimeout: timeouts.requestMs,
      maxHeaderSize: limits.headerBytes,
      insecureHTTPParser: false,
      requireHostHeader: false, // rejected below, with a message
    },
    handle,
  );
  // After a rejected request, the start of the next one on that connection is uncertain.
  const distrusted = new WeakSet<Duplex>();
  function handle(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', url: target = '', rawHeaders, socket } = request;
    if (distrusted.has(socket)) return;
    const refusal = refuseRequest({ method, target, rawHeaders });
    if (refusal !== undefined) {
      distrusted.add(socket);
      response.shouldKeepAlive = false;
      sendError(response, { ...refusal, code: 'bad_request' });
      return;
    }
    new Exchange(request, response, router, { timeouts, limits, allowance }).start();
  }
  // Answered here; the engine gets the body without Expect.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (!distrusted.has(request.socket)) response.writeContinue();
    handle(request, response);
  });
  server.on('connect', (_request, socket) => {
    refuseConnection(socket, { status: 405, message: 'CONNECT is not supported.', code: 'bad_request' });
  });
  server.on('upgrade', (_request, socket) => {
    const message = 'Protocol upgrades are not supported.';
    refuseConnection(socket, { status: 501, message, code: 'bad_request' });
  });
  server.on('clientError', (cause: NodeJS.ErrnoException, socket: Duplex) => {
    if (distrusted.has(socket)) return;
    distrusted.add(socket);
    refuseConnection(socket, describeParseError(cause.code ?? ''));
  });
  return server;
}

function refuseConnection(socket: Duplex, error: ErrorResponse): void {
  socket.on('error', () => undefined); // it may be closed already
  if (socket.writable) socket.end(rawErrorResponse(error), () => socket.destroy());
  else socket.destroy();
}

function describeParseError(code: string): ErrorResponse {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return { status: 431, message: 'The header fields are too large.', code: 'headers_too_large' };
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return { status: 408, message: 'The request did not arrive in time.', code: 'request_timeout' };
    default:
      return { status: 400, message: 'The request is not valid HTTP/1.1.', code: 'bad_request' };
  }
}

/** Waits for running requests up to a time (0: no limit), then closes all connections. */
export async function closeProxy(server: Server, graceMs: number): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, 'close');
  server.close();
  server.closeIdleConnections();
  const closeAll = (): void => {
    server.closeAllConnections();
  };
  const timer = graceMs === 0 ? undefined : setTimeout(closeAll, graceMs);
  await closed;
  clearTimeout(timer);
}
