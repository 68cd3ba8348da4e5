/**
 * Parses an engine's response (RFC 9112). `node:http` builds a request, a stream and a parser with their listeners for each
 * exchange, which costs more than everything else the guard does. A response whose end two parsers could see at different
 * places is an error, as are header fields that may not be passed on.
 */
import type { RawHeaders } from './message-headers.js';

export interface ResponseHead {
  readonly status: number;
  readonly reason: string;
  readonly rawHeaders: RawHeaders;
}

export interface ResponseHandler {
  onHead(head: ResponseHead): void;
  /** @param isLast where the length was announced and this is its end */
  onBytes(bytes: Buffer, isLast: boolean): void;
  /** After the last byte of a complete response. */
  onEnd(): void;
}

const maxHeadBytes = 64 << 10;
const statusLine = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?$/;
const fieldName = /^[\w!#$%&'*+.^`|~-]+$/;
const invalidInValue = /[^\t\x20-\x7e\x80-\xff]/;
const chunkLine = /^([\da-f]{1,8})[ \t]*(?:;.*)?$/i;
const nothing: Buffer = Buffer.alloc(0);

export class ResponseParser {
  /** How long the connection may be idle after this response, as the engine says; 0 where it closes. */
  keepAliveMs = Infinity;
  private state: 'head' | 'length' | 'close' | 'size' | 'chunk' | 'chunk-end' | 'trailer' | 'done' = 'head';
  private left = 0;
  /** The beginning of a head or a line. */
  private rest: Buffer = nothing;

  constructor(
    private readonly method: string,
    private readonly handler: ResponseHandler,
  ) {}

  get isDone(): boolean {
    return this.state === 'done';
  }

  /** Throws where the response is not valid. */
  push(bytes: Buffer): void {
    const input = this.rest.length === 0 ? bytes : Buffer.concat([this.rest, bytes]);
    this.rest = nothing;
    let at = 0;
    while (at < input.length) {
      if (this.state === 'done') throw new Error('bytes after the response');
      if (this.state === 'length' || this.state === 'chunk' || this.state === 'close') {
        const piece = at === 0 && this.left >= input.length ? input : input.subarray(at, at + this.left);
        at += piece.length;
        this.pass(piece);
        continue;
      }
      const ending = this.state === 'head' ? '\r\n\r\n' : '\r\n';
      const end = input.indexOf(ending, at, 'latin1');
      if (end < 0 || end - at > maxHeadBytes) {
        if (input.length - at > maxHeadBytes) throw new Error('a line or head is too long');
        this.rest = input.subarray(at);
        return;
      }
      const text = input.toString('latin1', at, end);
      at = end + ending.length;
      if (this.state === 'head') this.readHead(text);
      else this.readLine(text);
    }
  }

  /** The engine closed the connection, which ends a response without a length. */
  finish(): void {
    if (this.state === 'close') this.end();
  }

  private pass(bytes: Buffer): void {
    this.left -= bytes.length;
    const isLast = this.state === 'length' && this.left === 0;
    if (this.state === 'chunk' && this.left === 0) this.state = 'chunk-end';
    this.handler.onBytes(bytes, isLast);
    if (isLast) this.end();
  }

  private readHead(text: string): void {
    const [first = '', ...lines] = text.split('\r\n');
    const [, minor, code, reason = ''] = statusLine.exec(first) ?? refuse('status line');
    const rawHeaders: string[] = [];
    let length: number | undefined;
    let isChunked = false;
    for (const line of lines) {
      const colon = line.indexOf(':');
      const name = line.slice(0, Math.max(0, colon));
      const value = trimSpace(line, colon + 1);
      if (!fieldName.test(name) || invalidInValue.test(value)) refuse('header field');
      rawHeaders.push(name, value);
      switch (name.toLowerCase()) {
        case 'content-length':
          if (length !== undefined || !/^\d{1,15}$/.test(value)) refuse('length');
          length = Number(value);
          break;
        case 'transfer-encoding':
          if (isChunked || value.toLowerCase() !== 'chunked') refuse('transfer encoding');
          isChunked = true;
          break;
        case 'connection':
          if (/(?:^|,)[ \t]*close[ \t]*(?:,|$)/i.test(value)) this.keepAliveMs = 0;
          break;
        case 'keep-alive':
          // A second earlier, so that no request meets a connection that is being closed.
          this.keepAliveMs = Math.min(this.keepAliveMs, 1000 * (Number(/timeout=(\d{1,6})/.exec(value)?.[1] ?? Infinity) - 1)); // prettier-ignore
          break;
        default:
      }
    }
    const status = Number(code);
    if (status === 101 || (isChunked && length !== undefined)) refuse('framing');
    if (status < 200) return; // the final response follows
    if (minor === '0') this.keepAliveMs = 0;
    const isEmpty = this.method === 'HEAD' || status === 204 || status === 304 || length === 0;
    if (!isEmpty && !isChunked && length === undefined) this.keepAliveMs = 0;
    // Whether the announced body follows is uncertain.
    if (status === 204 && (isChunked || length !== undefined)) this.keepAliveMs = 0;
    this.left = length ?? Infinity;
    this.state = isChunked ? 'size' : length === undefined ? 'close' : 'length';
    this.handler.onHead({ status, reason, rawHeaders });
    if (isEmpty) this.end();
  }

  private readLine(line: string): void {
    if (this.state === 'size') {
      this.left = Number.parseInt((chunkLine.exec(line) ?? refuse('chunk size'))[1]!, 16);
      this.state = this.left === 0 ? 'trailer' : 'chunk';
    } else if (this.state === 'chunk-end') {
      if (line !== '') refuse('chunk');
      this.state = 'size';
    } else if (line === '') this.end();
  }

  private end(): void {
    this.state = 'done';
    this.handler.onEnd();
  }
}

/** A regular expression would take quadratic time for long runs of spaces. */
function trimSpace(line: string, from: number): string {
  let [start, end] = [from, line.length];
  while (isSpace(line, start)) start++;
  while (end > start && isSpace(line, end - 1)) end--;
  return line.slice(start, end);
}

const isSpace = (line: string, at: number): boolean => line[at] === ' ' || line[at] === '\t';

function refuse(what: string): never {
  throw new Error(`an invalid ${what}`);
}
