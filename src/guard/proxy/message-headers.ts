/**
 * Which header fields a proxy passes on (RFC 9110, 7.6.1; RFC 9112, 11): all, in their order and spelling, except those of
 * one connection and trailers. A message whose end or host two parsers could read differently is rejected, never repaired.
 */
import type { ServerResponse } from 'node:http';

/** Names and values alternate, as in node:http. */
export type RawHeaders = readonly string[];

export interface ErrorResponse {
  readonly status: number;
  readonly message: string;
  readonly code: string;
  readonly headers?: RawHeaders;
}

const ofOneConnection: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
]);
/** Listing one of these in Connection would change the message itself. */
const neverListed: ReadonlySet<string> = new Set(['content-length', 'content-type', 'host', 'close']);
const none: ReadonlySet<string> = new Set();
const hostForm = /^(?:\[[\da-f:.]+\]|[a-z\d](?:[\w.-]*[a-z\d.])?)(?::\d{1,5})?$/i;

/** The first value of a field. `name` is in lower case. */
export function valueOf(rawHeaders: RawHeaders, name: string): string | undefined {
  return valuesOf(rawHeaders, name)[0];
}

export function valuesOf(rawHeaders: RawHeaders, name: string): string[] {
  const values: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const field = rawHeaders[index]!;
    if (field.length === name.length && field.toLowerCase() === name) values.push(rawHeaders[index + 1]!);
  }
  return values;
}

/** Undefined where the request may pass. */
export function refuseRequest(
  method: string,
  target: string,
  rawHeaders: RawHeaders,
): ErrorResponse | undefined {
  if (!target.startsWith('/')) return bad('The request target contains a host; send the path only.');
  if (method === 'TRACE' || method === 'CONNECT') return bad(`${method} is not supported.`, 405);
  let [hosts, lengths, encodings] = [0, 0, 0];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const value = rawHeaders[index + 1]!;
    switch (rawHeaders[index]!.toLowerCase()) {
      case 'host':
        hosts++;
        if (!hostForm.test(value)) return bad('The Host header is not a host name.');
        break;
      case 'content-length':
        lengths++;
        if (!/^\d{1,15}$/.test(value)) return bad('The Content-Length header is not a number.');
        break;
      case 'transfer-encoding':
        encodings++;
        if (value.toLowerCase() !== 'chunked') return bad('The only supported transfer encoding is chunked.');
        break;
      case 'upgrade':
        return bad('Protocol upgrades are not supported.', 501);
      default:
    }
  }
  if (hosts !== 1) return bad(`The request has ${hosts} Host headers; expected one.`);
  if (lengths + encodings > 1)
    return bad('The request has more than one Content-Length or Transfer-Encoding header.');
  return undefined;
}

export function bad(message: string, status = 400): ErrorResponse {
  return { status, message, code: 'bad_request' };
}

/** @param without in lower case */
export function headersToPass(rawHeaders: RawHeaders, without?: ReadonlySet<string>): string[] {
  const listed = listedIn(valuesOf(rawHeaders, 'connection'));
  const passed: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!.toLowerCase();
    if (ofOneConnection.has(name) || listed.has(name) || without?.has(name) === true) continue;
    passed.push(rawHeaders[index]!, rawHeaders[index + 1]!);
  }
  return passed;
}

function listedIn(values: readonly string[]): ReadonlySet<string> {
  if (values.every((value) => value === 'keep-alive')) return none; // nearly every message
  const names = values.flatMap((value) => value.toLowerCase().split(','));
  return new Set(names.map((name) => name.trim()).filter((name) => !neverListed.has(name)));
}

const hopHeaders: ReadonlySet<string> = new Set(['host', 'expect']);
const readHeaders: ReadonlySet<string> = new Set([...hopHeaders, 'accept-encoding']);
const changedHeaders: ReadonlySet<string> = new Set([...readHeaders, 'content-length']);

/**
 * The client's header fields without those of its connection, plus ours.
 * @param isRead compressed responses cannot be read
 * @param length of a body that replaces the client's
 */
export function headersForEngine(
  { method, rawHeaders }: { readonly method: string; readonly rawHeaders: RawHeaders },
  isRead: boolean,
  length: number | undefined,
): string[] {
  const without = length !== undefined ? changedHeaders : isRead ? readHeaders : hopHeaders;
  const headers = headersToPass(rawHeaders, without);
  if (isRead) headers.push('Accept-Encoding', 'identity');
  if (length !== undefined) headers.push('Content-Length', String(length));
  else if (valueOf(rawHeaders, 'transfer-encoding') !== undefined)
    headers.push('Transfer-Encoding', 'chunked');
  // Without a length, Node would send an empty chunked body.
  else if (/^P(?:OST|UT|ATCH)$/.test(method) && valueOf(headers, 'content-length') === undefined)
    headers.push('Content-Length', '0');
  return headers;
}

/** Returns false where a response has already started. */
export function sendError(response: ServerResponse, error: ErrorResponse): boolean {
  if (response.headersSent || response.destroyed) return false;
  const body = errorBody(error);
  const { status, headers = [] } = error;
  const length = String(Buffer.byteLength(body));
  response.writeHead(status, ['Content-Type', 'application/json', 'Content-Length', length, ...headers]);
  response.end(body);
  return true;
}

export function errorBody({ status, message, code }: ErrorResponse): string {
  const type = status >= 500 ? 'server_error' : status === 429 ? 'rate_limit_error' : 'invalid_request_error';
  return JSON.stringify({ error: { message, type, param: null, code } });
}
