/** An engine's address and its connections, which are kept and used again. A request is never sent twice. */
import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { connect as connectSecurely } from 'node:tls';
import type { GuardConfiguration } from '../guard-config.js';
import { type Pool, type UpstreamHandler, Connection, maxIdleMs } from './connection.js';
import type { RawHeaders } from './message-headers.js';

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
  request({ method, path, headers, isChunked, body }: UpstreamRequest, handler: UpstreamHandler): Connection {
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
    connection.start(method, isChunked, handler);
    connection.send(head, body);
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
