/** What is decided about a request: where it goes, what is changed, and who watches the response. */
import type { IncomingMessage } from 'node:http';
import type { ErrorResponse } from './error-response.js';
import type { RawHeaders } from './message-headers.js';
import { acceptsTrailers, headersToPass, valuesOf } from './message-headers.js';
import type { Strip } from './telemetry-request.js';
import type { Upstream } from './upstream.js';

export interface RequestHead {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly rawHeaders: RawHeaders;
}

/** How an exchange ended; a client that stopped reading counts as `client-left`. */
export type ExchangeEnding = 'complete' | 'client-left' | 'upstream-failed' | 'refused';

/** Sees a response pass; never throws. */
export interface Watcher {
  onStart(response: IncomingMessage): void;
  onBytes(bytes: Buffer): void;
  /** @param status as sent to the client; 0 where it left before */
  onEnd(ending: ExchangeEnding, status: number): void;
}

export interface PassedRoute {
  readonly kind: 'pass';
  readonly upstream: Upstream;
  readonly watcher: Watcher;
  /** Replaces the client's body. */
  readonly body?: Buffer | undefined;
  /** Header fields not sent to the engine, in lower case. */
  readonly withoutHeaders?: ReadonlySet<string>;
  /** Header fields added for the engine; names and values alternate. */
  readonly withHeaders?: RawHeaders;
  /** What to take out of the response. */
  readonly strip?: Strip | undefined;
}

export interface RefusedRoute {
  readonly kind: 'refuse';
  readonly error: ErrorResponse;
  readonly watcher: Watcher;
}

export type Route = PassedRoute | RefusedRoute;

export const hopHeaders: ReadonlySet<string> = new Set(['host', 'expect']);
/** Compressed responses cannot be read. */
export const watchedHeaders: ReadonlySet<string> = new Set([...hopHeaders, 'accept-encoding']);

/** The client's header fields without those of its connection, plus ours. */
export function headersFor(
  { method, rawHeaders }: RequestHead,
  route: PassedRoute,
  isChunked: boolean,
): string[] {
  const { withoutHeaders = hopHeaders, withHeaders, body } = route;
  const headers = headersToPass(rawHeaders, { without: withoutHeaders, with: withHeaders });
  if (body !== undefined && !isChunked) {
    const at = headers.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === 'content-length');
    if (at >= 0) headers[at + 1] = String(body.byteLength);
  }
  if (isChunked) headers.push('Transfer-Encoding', 'chunked');
  else if (hasNoBody(method, headers)) headers.push('Content-Length', '0');
  if (acceptsTrailers(rawHeaders)) headers.push('TE', 'trailers', 'Connection', 'keep-alive, TE');
  return headers;
}

/** Without a length, Node would send an empty chunked body. */
function hasNoBody(method: string, headers: RawHeaders): boolean {
  return /^P(?:OST|UT|ATCH)$/.test(method) && valuesOf(headers, 'content-length').length === 0;
}
