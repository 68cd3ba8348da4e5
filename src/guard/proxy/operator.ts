/**
 * The operator's listener: page, state and metrics. On loopback no key is needed, but the Host header must be an
 * address, localhost or a configured name: another name may be a web page whose DNS name points here.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import { isIP } from 'node:net';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { textContentType } from '../metrics/guard-metrics.js';
import { type ErrorResponse, bad, sendError } from './message-headers.js';

export interface Page {
  readonly html: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface OperatorOptions {
  readonly key?: string | undefined;
  /** Host names besides addresses and localhost. */
  readonly hosts?: readonly string[];
  readonly readPage?: (() => Page) | undefined;
  /** The page's data; entries after a time in milliseconds. */
  readonly readState: (sinceMs: number) => unknown;
  readonly readMetrics?: () => string;
}

const safety = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy': "default-src 'none'",
};

/** An address that others can reach needs a key. */
export function requireKey(host: string, key: string | undefined): void {
  if (key !== undefined || isLoopback(host)) return;
  throw new MistletoeError('usage', `The operator address ${host} is not loopback and has no key.`, {
    hint: 'Set MISTLETOE_GUARD_KEY or operator.keyFile, or keep operator.host at 127.0.0.1.',
  });
}

/** Of a file; undefined without one. */
export function readKey(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  const key = readFileSync(path, 'utf8').trim();
  if (/^\S{8,}$/.test(key)) return key;
  throw new MistletoeError('usage', `${path} contains no key; expected one word of 8 or more characters.`, {
    hint: 'Create one with: openssl rand -hex 32',
  });
}

export function createOperatorServer(options: OperatorOptions): Server {
  const page = options.readPage?.();
  return createServer((request, response) => {
    request.resume();
    answer(options, page, request, response).catch((cause: unknown) => {
      sendError(response, { status: 500, message: describeCause(cause), code: 'guard_failed' });
    });
  });
}

async function answer(
  options: OperatorOptions,
  page: Page | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { pathname, searchParams } = new URL(`http://guard${request.url ?? ''}`);
  const send = (body: string, type: string, headers: Page['headers'] = safety): void => {
    const length = Buffer.byteLength(body);
    response.writeHead(200, { 'content-type': type, 'content-length': length, ...headers }).end(body);
  };
  if (pathname === '/') {
    response.writeHead(302, { location: '/mistletoe' }).end();
    return;
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    sendError(response, { ...bad('Only GET is supported here.', 405), headers: ['Allow', 'GET, HEAD'] });
    return;
  }
  // These contain no data, so they need no key.
  if (pathname === '/mistletoe/health') {
    send('{"status":"ok"}\n', 'application/json');
    return;
  }
  if (page !== undefined && /^\/mistletoe\/?$/.test(pathname)) {
    send(page.html, 'text/html; charset=utf-8', page.headers);
    return;
  }
  const refusal = refuseOperator(request, options);
  if (refusal !== undefined) sendError(response, refusal);
  else if (pathname === '/mistletoe/api/state') {
    const since = Number(searchParams.get('since') ?? 0);
    const state = await options.readState(Number.isFinite(since) ? since : 0);
    send(JSON.stringify(state), 'application/json');
  } else if (pathname === '/mistletoe/metrics' && options.readMetrics !== undefined)
    send(options.readMetrics(), textContentType);
  else sendError(response, { status: 404, message: 'Nothing is served under this path.', code: 'not_found' });
}

/** Undefined where the request may be answered. */
function refuseOperator(
  { headers, socket }: IncomingMessage,
  { key, hosts = [] }: OperatorOptions,
): ErrorResponse | undefined {
  const forbid = (message: string): ErrorResponse => ({ status: 403, message, code: 'operator_only' });
  if (key !== undefined) {
    const [, given] = /^bearer +(\S+) *$/i.exec(headers.authorization ?? '') ?? [];
    if (given !== undefined && equalKeys(given, key)) return undefined;
    const message = 'The operator key is required: Authorization: Bearer KEY.';
    return { ...forbid(message), status: 401, headers: ['WWW-Authenticate', 'Bearer realm="mistletoe"'] };
  }
  // A dual-stack socket shows IPv4 addresses as IPv6.
  if (!isLoopback((socket.remoteAddress ?? '').replace(/^::ffff:/, '')))
    return forbid('Without an operator key this is served to the same machine only.');
  const host = (headers.host ?? '').toLowerCase();
  const name = host.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
  const known = ['localhost', ...hosts.map((each) => each.toLowerCase())];
  if (isIP(name) !== 0 || known.includes(name)) return undefined;
  return forbid('Unknown host name; add it to operator.hosts.');
}

/** In constant time: hashes have the same length and reveal nothing about the key. */
function equalKeys(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}

/** Whether a host name or address is reachable from this machine only. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
