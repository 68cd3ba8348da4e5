/** What is decided about a request: where it goes, as what, and who watches the answer pass. */
import type { IncomingMessage } from 'node:http';
import type { ErrorAnswer } from './error-answer.js';
import type { RawHeaders } from './message-headers.js';
import { acceptsTrailers, headersToPass, valuesOf } from './message-headers.js';
import type { Upstream } from './upstream.js';

export interface RequestHead {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly rawHeaders: RawHeaders;
}

/** How an exchange ended, in the words of the record; a client that was too slow to be waited for has left. */
export type ExchangeEnding = 'complete' | 'client-left' | 'upstream-failed' | 'refused';

/** Sees an answer pass; never throws, never holds it up. */
export interface Watcher {
  onStart(response: IncomingMessage): void;
  onBytes(bytes: Buffer): void;
  /** @param status of what the client was given; 0 where it left before that */
  onEnd(ending: ExchangeEnding, status: number): void;
}

export interface PassedRoute {
  readonly kind: 'pass';
  readonly upstream: Upstream;
  readonly watcher: Watcher;
  /** In place of what the client sent. */
  readonly body?: Buffer;
  /** In lower case: fields that do not go to the engine; with `withHeaders`, names and values by turns. */
  readonly withoutHeaders?: ReadonlySet<string>;
  readonly withHeaders?: RawHeaders;
  /** For the client, beside the engine's. */
  readonly responseHeaders?: RawHeaders;
}

export interface RefusedRoute {
  readonly kind: 'refuse';
  readonly error: ErrorAnswer;
  readonly watcher: Watcher;
}

export type Route = PassedRoute | RefusedRoute;

const alwaysWithout: ReadonlySet<string> = new Set(['host', 'expect']);

/** What an engine is sent: the client's fields less those of its connection, and those of ours. */
export function headersFor(
  { method, rawHeaders }: RequestHead,
  route: PassedRoute,
  isChunked: boolean,
): string[] {
  const { withoutHeaders, withHeaders, body } = route;
  const without =
    withoutHeaders === undefined ? alwaysWithout : new Set([...alwaysWithout, ...withoutHeaders]);
  const headers = headersToPass(rawHeaders, { without, with: withHeaders ?? [] });
  if (body !== undefined && !isChunked) {
    const at = headers.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === 'content-length');
    if (at >= 0) headers[at + 1] = String(body.byteLength);
  }
  // Ours, because they speak of our connection to the engine.
  if (isChunked) headers.push('Transfer-Encoding', 'chunked');
  else if (hasNoBody(method, headers)) headers.push('Content-Length', '0');
  if (acceptsTrailers(rawHeaders)) headers.push('TE', 'trailers', 'Connection', 'keep-alive, TE');
  return headers;
}

/** Node would send an empty chunked body where none is announced. */
function hasNoBody(method: string, headers: RawHeaders): boolean {
  return /^P(?:OST|UT|ATCH)$/.test(method) && valuesOf(headers, 'content-length').length === 0;
}
