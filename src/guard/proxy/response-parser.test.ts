import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ResponseParser } from './response-parser.js';

interface Parsed {
  readonly events: readonly string[];
  readonly body: string;
  readonly keepAliveMs: number;
  readonly error: string | undefined;
}

/** @param cuts where the bytes are cut into pieces */
function parse(
  text: string,
  { method = 'POST', cuts = [] as readonly number[], isClosed = false } = {},
): Parsed {
  const events: string[] = [];
  let body = '';
  const parser = new ResponseParser(method, {
    onHead: ({ status, reason, rawHeaders }) => events.push(`${status} ${reason} ${rawHeaders.join('|')}`),
    onBytes: (bytes, isLast) => {
      body += bytes.toString('latin1');
      if (isLast) events.push('last');
    },
    onEnd: () => events.push('end'),
  });
  const bytes = Buffer.from(text, 'latin1');
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  let error: string | undefined;
  try {
    for (const [index, end] of places.slice(1).entries()) parser.push(bytes.subarray(places[index], end));
    if (isClosed) parser.finish();
  } catch (cause) {
    error = (cause as Error).message;
  }
  return { events, body, keepAliveMs: parser.keepAliveMs, error };
}

const head = (...lines: string[]): string => ['HTTP/1.1 200 OK', ...lines, '', ''].join('\r\n');

describe('ResponseParser', () => {
  it.each([
    ['a length', head('Content-Length: 5') + 'hello', ['200 OK Content-Length|5', 'last', 'end'], 'hello'],
    ['no body', head('content-length:0'), ['200 OK content-length|0', 'end'], ''],
    [
      'chunks, extensions and trailers',
      `${head('Transfer-Encoding: chunked')}3;x=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nX: 1\r\n\r\n`,
      ['200 OK Transfer-Encoding|chunked', 'end'],
      'abc0123456789',
    ],
    [
      'an interim response',
      `HTTP/1.1 100 Continue\r\n\r\n${head('Content-Length: 1')}x`,
      ['200 OK Content-Length|1', 'last', 'end'],
      'x',
    ],
    ['no reason', 'HTTP/1.1 204\r\nX:  \u00a0y\u00a0 \t\r\n\r\n', ['204  X|\u00a0y\u00a0', 'end'], ''],
  ])('reads %s, however it is cut', (_, text, events, body) => {
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 12 }), (cuts) => {
        const parsed = parse(text, { cuts });
        expect(parsed).toMatchObject({ body, error: undefined, keepAliveMs: Infinity });
        // A body in several pieces ends with its last one.
        expect(parsed.events).toEqual(events);
      }),
    );
  });

  it('ends a response without a length with the connection', () => {
    const text = head('Content-Type: text/plain');
    expect(parse(`${text}abc`)).toMatchObject({ body: 'abc', keepAliveMs: 0 });
    expect(parse(`${text}abc`).events).not.toContain('end');
    expect(parse(`${text}abc`, { isClosed: true }).events).toContain('end');
    expect(parse(head('Content-Length: 9') + 'abc', { isClosed: true }).events).not.toContain('end');
  });

  it('expects no body after HEAD, 204 and 304', () => {
    expect(parse(head('Content-Length: 9'), { method: 'HEAD' }).events).toContain('end');
    for (const status of [204, 304])
      expect(parse(`HTTP/1.1 ${status} x\r\nETag: a\r\n\r\n`).events).toContain('end');
  });

  it('knows how long the connection can be kept', () => {
    const keep = (...lines: string[]): number => parse(head('Content-Length: 0', ...lines)).keepAliveMs;
    expect(keep()).toBe(Infinity);
    expect(keep('Connection: foo, Close')).toBe(0);
    expect(keep('Keep-Alive: timeout=5, max=100')).toBe(4000);
    expect(parse('HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n').keepAliveMs).toBe(0);
  });

  it.each([
    ['another protocol', 'SSH-2.0-x\r\n\r\n'],
    ['a bare line feed', 'HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n'],
    ['two lengths', head('Content-Length: 1', 'Content-Length: 1')],
    ['a length and chunks', head('Content-Length: 1', 'Transfer-Encoding: chunked')],
    ['a signed length', head('Content-Length: +1')],
    ['another encoding', head('Transfer-Encoding: gzip, chunked')],
    ['a folded field', head('X: a', ' b')],
    ['a space before the colon', head('Content-Length : 1')],
    ['a control character', head('X: a\u0001')],
    ['an upgrade', 'HTTP/1.1 101 Switching\r\n\r\n'],
    ['a chunk size', `${head('Transfer-Encoding: chunked')}zz\r\n`],
    ['a chunk that is too long', `${head('Transfer-Encoding: chunked')}1\r\nabc\r\n`],
    ['bytes after the end', `${head('Content-Length: 1')}xy`],
    ['a head without end', head(`X: ${'x'.repeat(70_000)}`)],
  ])('refuses %s', (_, text) => {
    expect(parse(text).error).toBeDefined();
  });
});
