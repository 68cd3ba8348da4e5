/**
 * The proxy alone: it knows connections and messages, and nothing of engines, tenants or alarms. Whoever runs it decides
 * for each request where it goes and watches the answer pass; see Desk.
 */
import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ErrorAnswer } from './error-answer.js';
import { answerError, rawErrorAnswer } from './error-answer.js';
import { Exchange } from './exchange.js';
import type { ExchangeLimits } from './exchange.js';
import type { RequestHead, Route } from './exchange-route.js';
import { createAllowance } from './held-body.js';
import { refuseRequest } from './message-headers.js';
import type { ResponseTimeouts } from './pass-through.js';

export interface ProxySettings {
  readonly timeouts: ResponseTimeouts & {
    /** Longest time in which a request must have arrived, body and all. */
    readonly requestMs: number;
  };
  readonly limits: ExchangeLimits & {
    /** Bodies that are held at one time; requests that find no room pass unread. */
    readonly heldBytes: number;
    readonly headerBytes: number;
  };
}

export interface Desk {
  /** True where the request is for the guard itself and is being answered. */
  answerOwn(request: IncomingMessage, response: ServerResponse): boolean;
  /** Whether the body is read before the request is sent on. */
  wantsBody(head: RequestHead): boolean;
  /** @param body undefined where it was not wanted, or is more than may be held */
  decide(head: RequestHead, body: Buffer | undefined): Route;
}

export type { ExchangeEnding, RequestHead, Route, Watcher } from './exchange-route.js';

/** A client's connection that rests this long is closed: longer than balancers in front keep theirs. */
const restMs = 75_000;

export function createProxy(desk: Desk, settings: ProxySettings): Server {
  const { timeouts, limits } = settings;
  const allowance = createAllowance(limits.heldBytes);
  const server = createServer(
    {
      noDelay: true,
      keepAliveTimeout: restMs,
      headersTimeout: Math.min(60_000, timeouts.requestMs === 0 ? 60_000 : timeouts.requestMs),
      requestTimeout: timeouts.requestMs,
      maxHeaderSize: limits.headerBytes,
      insecureHTTPParser: false,
      requireHostHeader: false, // refused below, in words
    },
    handle,
  );
  // Connections on which a request was refused: what follows cannot be trusted to begin where it seems to.
  const distrusted = new WeakSet<Duplex>();
  function handle(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', url: target = '', rawHeaders, socket } = request;
    if (distrusted.has(socket)) return;
    const refusal = refuseRequest({ method, target, rawHeaders });
    if (refusal !== undefined) {
      distrusted.add(socket);
      response.shouldKeepAlive = false;
      answerError(response, { ...refusal, code: 'bad_request' });
      return;
    }
    if (desk.answerOwn(request, response)) return;
    new Exchange(request, response, desk, { timeouts, limits, allowance }).start();
  }
  // The wait for "100 Continue" ends here, and the engine gets the body without it.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (!distrusted.has(request.socket)) response.writeContinue();
    handle(request, response);
  });
  server.on('connect', (_request, socket) => {
    refuseConnection(socket, { status: 405, message: 'CONNECT is not passed on.', code: 'bad_request' });
  });
  server.on('upgrade', (_request, socket) => {
    const message = 'Connections are not upgraded to another protocol.';
    refuseConnection(socket, { status: 501, message, code: 'bad_request' });
  });
  server.on('clientError', (cause: NodeJS.ErrnoException, socket: Duplex) => {
    if (distrusted.has(socket)) return; // it is being closed already
    distrusted.add(socket);
    refuseConnection(socket, describeParseError(cause.code ?? ''));
  });
  return server;
}

function refuseConnection(socket: Duplex, error: ErrorAnswer): void {
  socket.on('error', () => undefined); // it may be gone before it hears of it
  if (socket.writable) socket.end(rawErrorAnswer(error), () => socket.destroy());
  else socket.destroy();
}

function describeParseError(code: string): ErrorAnswer {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return { status: 431, message: 'The header fields are too large.', code: 'headers_too_large' };
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return { status: 408, message: 'The request did not arrive in time.', code: 'request_timeout' };
    default:
      return { status: 400, message: 'The request is not HTTP/1.1 as it should be.', code: 'bad_request' };
  }
}

/** Lets what runs come to its end, for so long (zero: however long it takes); then closes every connection. */
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
