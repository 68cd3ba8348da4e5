/** An engine's address and its connections, which are kept and used again. A request is never sent twice. */
import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { connect as connectSecurely } from 'node:tls';
import type { GuardConfiguration } from '../guard-config.js';
import type { ErrorResponse, RawHeaders } from './message-headers.js';
import { type ResponseHandler, ResponseParser } from './response-parser.js';

/** Sent to clients, so without addresses. */
const failures = {
  unreachable: [502, 'The engine does not accept connections.'],
  'connect-timeout': [504, 'The engine did not accept the connection in time.'],
  'first-byte-timeout': [504, 'The engine did not start a response in time.'],
  broken: [502, 'The engine closed the connection before it responded.'],
} as const;

export type UpstreamFailure = keyof typeof failures;

export function describeFailure(kind: UpstreamFailure): ErrorResponse {
  const [status, message] = failures[kind];
  return { status, message, code: `upstream_${kind.replaceAll('-', '_')}` };
}

export interface UpstreamHandler extends ResponseHandler {
  onConnect(): void;
  /** More of the request's body can be written. */
  onDrain(): void;
  /** The connection failed before the response was complete. */
  onFail(kind: UpstreamFailure): void;
}

/** Below the keep-alive time of engines (uvicorn: 5 s), so that no request meets a connection that is being closed. */
const maxIdleMs = 4000;
const maxIdle = 1024;
/** Up to here, head and body are joined and written at once. */
const maxJoinedBytes = 16 << 10;

interface Pool {
  /** The most recently used last. */
  readonly idle: Connection[];
  isOpen: boolean;
}

export interface UpstreamRequest {
  readonly method: string;
  /** Path and query, as the client sent them. */
  readonly path: string;
  /** Without Host and Connection. */
  readonly headers: RawHeaders;
  readonly isChunked: boolean;
  /** The whole body; undefined where `write` and `end` follow. */
  readonly body: Buffer | undefined;
}

/** Line ends are excluded by the parser of the client's request. */
const invalid = /[^\t\r\n\x20-\x7e\x80-\xff]/;

/** A segment that leads out of the upstream's own path, as engines and gateways may decode it. */
const climbing = /(?:^|[\\/]|%2f|%5c)(?:\.|%2e){2}(?:[\\/;?#]|%2f|%5c|$)/i;

export class Upstream {
  private readonly pool: Pool = { idle: [], isOpen: true };
  private readonly isSecure: boolean;
  private readonly address: { readonly host: string; readonly port: number };
  private readonly hostHeader: string;
  private readonly basePath: string;
  private readonly timer: NodeJS.Timeout;

  constructor(
    url: string,
    readonly timeouts: Pick<GuardConfiguration['timeouts'], 'connect' | 'firstByte'>,
  ) {
    const { protocol, hostname, port, pathname, host } = new URL(url);
    this.isSecure = protocol === 'https:';
    const defaultPort = this.isSecure ? 443 : 80;
    this.address = { host: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? defaultPort : Number(port) };
    this.hostHeader = host;
    this.basePath = pathname.replace(/\/+$/, '');
    this.timer = setInterval(() => {
      for (const connection of this.pool.idle.filter((each) => !each.isUsable())) connection.destroy();
    }, maxIdleMs);
    this.timer.unref();
  }

  /** Throws where the path or a header field cannot be sent. */
  request(request: UpstreamRequest, handler: UpstreamHandler): Connection {
    const { method, path, headers } = request;
    let head = `${method} ${this.basePath}${path} HTTP/1.1\r\nHost: ${this.hostHeader}\r\n`;
    for (let index = 0; index < headers.length; index += 2)
      head += `${headers[index]!}: ${headers[index + 1]!}\r\n`;
    head += 'Connection: keep-alive\r\n\r\n';
    if (invalid.test(head)) throw new Error('invalid characters');
    if (this.basePath !== '' && climbing.test(path.split('?', 1)[0]!)) throw new Error('leaves the upstream');
    const { idle } = this.pool;
    let connection = idle.pop();
    while (connection?.isUsable() === false) {
      connection.destroy();
      connection = idle.pop();
    }
    connection ??= new Connection(this.connect(), this.isSecure, this.pool);
    connection.start(request, head, handler);
    return connection;
  }

  /** Running requests finish. */
  close(): void {
    clearInterval(this.timer);
    this.pool.isOpen = false;
    for (const connection of [...this.pool.idle]) connection.destroy();
  }

  private connect(): Socket {
    if (!this.isSecure) return connectPlain({ ...this.address, noDelay: true });
    const { host } = this.address;
    const name = isIP(host) === 0 ? { servername: host } : {};
    return connectSecurely({ ...this.address, ...name, ALPNProtocols: ['http/1.1'] }).setNoDelay(true);
  }
}

/** One request at a time. */
export class Connection {
  isConnecting = true;
  private parser: ResponseParser | undefined;
  private handler: UpstreamHandler | undefined;
  private isChunked = false;
  private isSent = false;
  private usableUntilMs = 0;

  constructor(
    private readonly socket: Socket,
    isSecure: boolean,
    private readonly pool: Pool,
  ) {
    socket.once(isSecure ? 'secureConnect' : 'connect', () => {
      this.isConnecting = false;
      this.handler?.onConnect();
    });
    socket.on('data', (bytes: Buffer) => {
      this.read(bytes);
    });
    socket.on('drain', () => this.handler?.onDrain());
    socket.on('end', () => this.parser?.finish());
    socket.on('error', () => undefined); // 'close' follows
    socket.on('close', () => {
      // What came before a failure and waits for a slow client still passes.
      const rest = socket.read() as Buffer | null;
      if (rest !== null && this.handler !== undefined) this.read(rest);
      this.fail();
    });
  }

  start({ method, isChunked, body }: UpstreamRequest, head: string, handler: UpstreamHandler): void {
    this.parser = new ResponseParser(method, handler);
    this.handler = handler;
    this.isChunked = isChunked;
    this.isSent = false;
    this.socket.ref();
    if (body === undefined) {
      this.socket.write(head, 'latin1');
      return;
    }
    const { length } = body;
    this.isSent = true;
    if (length <= maxJoinedBytes) {
      const text = body.toString('latin1');
      const framed = length === 0 ? '0\r\n\r\n' : `${length.toString(16)}\r\n${text}\r\n0\r\n\r\n`;
      this.socket.write(head + (isChunked ? framed : text), 'latin1');
      return;
    }
    this.socket.cork();
    this.socket.write(head, 'latin1');
    this.write(body);
    this.end();
    this.socket.uncork();
  }

  isUsable(): boolean {
    return this.socket.writable && Date.now() < this.usableUntilMs;
  }

  /** Returns false where the caller should wait for `onDrain`. */
  write(bytes: Buffer): boolean {
    if (!this.isChunked || bytes.length === 0) return this.socket.write(bytes);
    this.socket.write(`${bytes.length.toString(16)}\r\n`, 'latin1');
    this.socket.write(bytes);
    return this.socket.write('\r\n', 'latin1');
  }

  /** After the last byte of the body. */
  end(): void {
    this.isSent = true;
    if (this.isChunked) this.socket.write('0\r\n\r\n', 'latin1');
  }

  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    this.socket.resume();
  }

  /** Without a call of the handler. */
  destroy(): void {
    this.handler = undefined;
    this.parser = undefined;
    const place = this.pool.idle.indexOf(this);
    if (place >= 0) this.pool.idle.splice(place, 1);
    this.socket.destroy();
  }

  private read(bytes: Buffer): void {
    const { parser } = this;
    if (parser === undefined) {
      this.destroy(); // an engine that talks without being asked
      return;
    }
    try {
      parser.push(bytes);
    } catch {
      this.fail();
    }
    if (parser.isDone && this.parser === parser) this.release(parser.keepAliveMs);
  }

  private release(keepAliveMs: number): void {
    const idleMs = Math.min(maxIdleMs, keepAliveMs);
    const { idle, isOpen } = this.pool;
    // An engine that responded early does not read the rest of the request.
    const isKept = this.isSent && isOpen && idleMs > 0 && idle.length < maxIdle && this.socket.writable;
    if (!isKept) {
      this.destroy();
      return;
    }
    this.handler = undefined;
    this.parser = undefined;
    this.usableUntilMs = Date.now() + idleMs;
    this.socket.resume();
    this.socket.unref();
    idle.push(this);
  }

  private fail(): void {
    const { handler, isConnecting } = this;
    this.destroy();
    handler?.onFail(isConnecting ? 'unreachable' : 'broken');
  }
}
