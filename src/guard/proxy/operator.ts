/**
 * The operator's listener: page, records, state and metrics, on a port of their own. On loopback no key is needed, but
 * the Host header must be an address, localhost or a configured name: another name may be a web page whose DNS name points
 * here. On any other address a key is required.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import { isIP } from 'node:net';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { isLoopback } from '../../core/loopback.js';
import { sendError } from './error-response.js';

export interface PageAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Undefined where the path is not the page's. */
export type PageHandler = (path: string, method: string) => PageAnswer | undefined;

export interface OperatorAccess {
  readonly key: string | undefined;
  /** Host names besides addresses and localhost. */
  readonly hosts: readonly string[];
}

/** What a path answers: a content type and a body. */
export type Endpoint = (
  parameters: URLSearchParams,
) => readonly [string, string] | Promise<readonly [string, string]>;

export interface OperatorOptions {
  readonly access: OperatorAccess;
  readonly page?: PageHandler | undefined;
  /** By path; /mistletoe/health exists always and needs no key. */
  readonly endpoints: Readonly<Record<string, Endpoint>>;
}

const safety = [
  ...['Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff'],
  ...['Cross-Origin-Resource-Policy', 'same-origin', 'Content-Security-Policy', "default-src 'none'"],
];

/** An address that others can reach needs a key. */
export function requireKey(host: string, key: string | undefined): void {
  if (key !== undefined || isLoopback(host)) return;
  throw new MistletoeError('usage', `The operator address ${host} is not loopback and has no key.`, {
    hint: 'Set MISTLETOE_GUARD_KEY or operator.keyFile, or keep operator.host at 127.0.0.1.',
  });
}

export function createOperatorServer(options: OperatorOptions): Server {
  return createServer((request, response) => {
    request.resume();
    answer(options, request, response).catch((cause: unknown) => {
      sendError(response, { status: 500, message: describeCause(cause), code: 'guard_failed' });
    });
  });
}

async function answer(
  { access, page, endpoints }: OperatorOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { method = '' } = request;
  const { pathname, searchParams } = new URL(`http://guard${request.url ?? ''}`);
  if (pathname === '/') {
    response.writeHead(302, { location: '/mistletoe' }).end();
    return;
  }
  const found = page?.(pathname, method);
  if (found !== undefined) {
    response.writeHead(found.status, { ...found.headers }).end(found.body);
    return;
  }
  if (method !== 'GET' && method !== 'HEAD') {
    const headers = ['Allow', 'GET, HEAD'];
    sendError(response, {
      status: 405,
      message: 'Only GET is supported here.',
      code: 'bad_request',
      headers,
    });
    return;
  }
  if (pathname === '/mistletoe/health') {
    send(response, method, ['application/json', '{"status":"ok"}\n']);
    return;
  }
  const refusal = refuseOperator(request, access);
  if (refusal !== undefined) {
    const headers = refusal.status === 401 ? ['WWW-Authenticate', 'Bearer realm="mistletoe"'] : [];
    sendError(response, { ...refusal, code: 'operator_only', headers });
    return;
  }
  const endpoint = Object.hasOwn(endpoints, pathname) ? endpoints[pathname] : undefined;
  if (endpoint !== undefined) send(response, method, await endpoint(searchParams));
  else sendError(response, { status: 404, message: 'Nothing is served under this path.', code: 'not_found' });
}

function send(response: ServerResponse, method: string, [type, body]: readonly [string, string]): void {
  const length = String(Buffer.byteLength(body));
  response.writeHead(200, ['Content-Type', type, 'Content-Length', length, ...safety]);
  response.end(method === 'HEAD' ? undefined : body);
}

/** Undefined where the request may be answered. */
export function refuseOperator(
  request: Pick<IncomingMessage, 'headers' | 'socket'>,
  { key, hosts }: OperatorAccess,
): { readonly status: 401 | 403; readonly message: string } | undefined {
  if (key !== undefined) {
    const [, given] = /^bearer +(\S+) *$/i.exec(request.headers.authorization ?? '') ?? [];
    if (given !== undefined && equalKeys(given, key)) return undefined;
    return { status: 401, message: 'The operator key is required: Authorization: Bearer KEY.' };
  }
  // A dual-stack socket shows IPv4 addresses as IPv6.
  if (!isLoopback((request.socket.remoteAddress ?? '').replace(/^::ffff:/, '')))
    return { status: 403, message: 'Without an operator key this is served to the same machine only.' };
  const name = (request.headers.host ?? '')
    .replace(/:\d+$/, '')
    .replace(/^\[|\]$/g, '')
    .toLowerCase();
  const isKnown =
    name === 'localhost' || isIP(name) !== 0 || hosts.some((host) => host.toLowerCase() === name);
  return isKnown ? undefined : { status: 403, message: 'Unknown host name; add it to operator.hosts.' };
}

/** In constant time: hashes have the same length and reveal nothing about the key. */
export function equalKeys(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}
