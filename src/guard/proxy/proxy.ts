/** The proxy's server. It handles connections and messages only; a Router decides where each request goes. */
import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer, STATUS_CODES } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { Exchange } from './exchange.js';
import type { ProxySettings, Router } from './exchange-route.js';
import { type ErrorResponse, bad, errorBody, refuseRequest, sendError } from './message-headers.js';

/** Idle client connections: longer than load balancers keep theirs. */
const keepAliveMs = 75_000;

export function createProxy(router: Router, settings: ProxySettings): Server {
  const { request: requestTimeout } = settings.timeouts;
  const exchangeSettings = { ...settings, held: { bytes: 0 } };
  const server = createServer(
    {
      noDelay: true,
      keepAliveTimeout: keepAliveMs,
      headersTimeout: Math.min(60_000, requestTimeout === 0 ? 60_000 : requestTimeout),
      requestTimeout,
      maxHeaderSize: settings.limits.headerSize,
      insecureHTTPParser: false,
      requireHostHeader: false, // rejected below, with a message
    },
    handle,
  );
  // Node drops further fields silently, which would hide a length or a tenant; headerSize limits them all.
  server.maxHeadersCount = 0;
  // After a rejected request, the start of the next one on that connection is uncertain.
  const distrusted = new WeakSet<Duplex>();
  function handle(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', url: target = '', rawHeaders, socket } = request;
    if (distrusted.has(socket)) return;
    const refusal = refuseRequest(method, target, rawHeaders);
    if (refusal === undefined) {
      new Exchange(request, response, router, exchangeSettings).start();
      return;
    }
    distrusted.add(socket);
    response.shouldKeepAlive = false;
    sendError(response, refusal);
  }
  // Answered here; the engine gets the body without Expect.
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (!distrusted.has(request.socket)) response.writeContinue();
    handle(request, response);
  });
  server.on('connect', (_request, socket) => {
    refuseConnection(socket, bad('CONNECT is not supported.', 405));
  });
  server.on('upgrade', (_request, socket) => {
    refuseConnection(socket, bad('Protocol upgrades are not supported.', 501));
  });
  server.on('clientError', (cause: NodeJS.ErrnoException, socket: Duplex) => {
    if (distrusted.has(socket)) return;
    distrusted.add(socket);
    refuseConnection(socket, describeParseError(cause.code));
  });
  return server;
}

/** For a connection whose request could not be parsed. */
function refuseConnection(socket: Duplex, error: ErrorResponse): void {
  socket.on('error', () => undefined); // it may be closed already
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const body = errorBody(error);
  const head = `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? 'Error'}\r\nContent-Type: application/json`;
  const length = Buffer.byteLength(body);
  socket.end(`${head}\r\nContent-Length: ${length}\r\nConnection: close\r\n\r\n${body}`, () =>
    socket.destroy(),
  );
}

function describeParseError(code: string | undefined): ErrorResponse {
  if (code === 'HPE_HEADER_OVERFLOW')
    return { status: 431, message: 'The header fields are too large.', code: 'headers_too_large' };
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return { status: 408, message: 'The request did not arrive in time.', code: 'request_timeout' };
  return bad('The request is not valid HTTP/1.1.');
}

/** Waits for running requests up to a time (0: no limit), then closes all connections. */
export async function closeServer(server: Server, graceMs: number): Promise<void> {
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

export async function listen(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
  setting: string,
): Promise<string> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (cause) {
    const message = `Mistletoe cannot listen on ${host}:${port}: ${describeCause(cause)}.`;
    const hint = `Set another ${setting}, or stop the program that uses it.`;
    throw new MistletoeError('usage', message, { hint, cause });
  }
  return `http://${host.includes(':') ? `[${host}]` : host}:${(server.address() as AddressInfo).port}`;
}
