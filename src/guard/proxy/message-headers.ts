/**
 * Which header fields a proxy passes on (RFC 9110, 7.6.1; RFC 9112, 11): all, in their order and spelling, except those of
 * one connection. A message whose end or host two parsers could read differently is rejected, never repaired.
 */

/** Names and values alternate, as in node:http. */
export type RawHeaders = readonly string[];

export interface MessageHead {
  readonly method: string;
  /** As in the request line. */
  readonly target: string;
  readonly rawHeaders: RawHeaders;
}

export interface Refusal {
  readonly status: number;
  readonly message: string;
}

const ofOneConnection: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
]);

/** Listing one of these in Connection would change the message itself. */
const neverListed: ReadonlySet<string> = new Set(['content-length', 'content-type', 'host', 'trailer']);

const hostForm = /^(?:\[[\da-f:.]+\]|[a-z\d](?:[\w.-]*[a-z\d.])?)(?::\d{1,5})?$/i;

/** All values of a field. `name` is in lower case. */
export function valuesOf(rawHeaders: RawHeaders, name: string): string[] {
  const values: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const field = rawHeaders[index]!;
    if (field.length === name.length && field.toLowerCase() === name) values.push(rawHeaders[index + 1]!);
  }
  return values;
}

/** Undefined where the request may pass. */
export function refuseRequest({ method, target, rawHeaders }: MessageHead): Refusal | undefined {
  if (!target.startsWith('/')) {
    return bad('The request target contains a host; send the path only.');
  }
  if (method === 'TRACE' || method === 'CONNECT') {
    return { status: 405, message: `${method} is not supported.` };
  }
  let hosts = 0;
  let lengths = 0;
  let encodings = 0;
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
        return { status: 501, message: 'Protocol upgrades are not supported.' };
      default:
    }
  }
  if (hosts !== 1) return bad(`The request has ${hosts} Host headers; expected one.`);
  if (lengths > 1) return bad('The request has more than one Content-Length header.');
  if (encodings > 1) return bad('The request has more than one Transfer-Encoding header.');
  if (lengths + encodings > 1) return bad('The request has both Content-Length and Transfer-Encoding.');
  return undefined;
}

function bad(message: string): Refusal {
  return { status: 400, message };
}

export interface HeaderChanges {
  /** In lower case. */
  readonly without?: ReadonlySet<string> | undefined;
  /** Appended; names and values alternate. */
  readonly with?: RawHeaders | undefined;
}

export function headersToPass(rawHeaders: RawHeaders, changes: HeaderChanges = {}): string[] {
  let listed: Set<string> | undefined;
  for (const value of valuesOf(rawHeaders, 'connection')) {
    for (const token of value.split(',')) {
      const name = token.trim().toLowerCase();
      if (name === '' || neverListed.has(name) || ofOneConnection.has(name) || name === 'close') continue;
      listed ??= new Set();
      listed.add(name);
    }
  }
  const passed: string[] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!.toLowerCase();
    if (ofOneConnection.has(name) || listed?.has(name) === true || changes.without?.has(name) === true)
      continue;
    passed.push(rawHeaders[index]!, rawHeaders[index + 1]!);
  }
  if (changes.with !== undefined) passed.push(...changes.with);
  return passed;
}

export function acceptsTrailers(rawHeaders: RawHeaders): boolean {
  return valuesOf(rawHeaders, 'te').some((value) =>
    value.split(',').some((coding) => coding.trim().toLowerCase() === 'trailers'),
  );
}

/** For addTrailers. */
export function pairsOf(rawHeaders: RawHeaders): [string, string][] {
  const pairs: [string, string][] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    pairs.push([rawHeaders[index]!, rawHeaders[index + 1]!]);
  }
  return pairs;
}
