/** What is decided about a request: where it goes, what is changed, and who watches the response. */
import type { GuardConfiguration } from '../guard-config.js';
import type { ErrorResponse, RawHeaders } from './message-headers.js';
import type { ResponseHead } from './response-parser.js';
import type { Strip } from './telemetry-request.js';
import type { IncomingMessage } from 'node:http';
import type { Connection, Upstream } from './upstream.js';

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
  /** After the request was sent: what need not delay it. */
  onSent?(): void;
  onStart(head: ResponseHead): void;
  onBytes(bytes: Buffer): void;
  /** @param status as sent to the client; 0 where it left before */
  onEnd(ending: ExchangeEnding, status: number): void;
}

export type Route =
  | {
      readonly kind: 'pass';
      readonly upstream: Upstream;
      readonly watcher: Watcher;
      /** Replaces the client's body. */
      readonly body?: Buffer | undefined;
      /** The response is read, so the engine must not compress it. */
      readonly isRead?: boolean;
      readonly strip?: Strip | undefined;
    }
  | { readonly kind: 'refuse'; readonly error: ErrorResponse; readonly watcher: Watcher };

export interface Router {
  /** Whether the body is read before the request is forwarded. */
  wantsBody(head: RequestHead): boolean;
  /** @param body undefined where it was not wanted or is too large */
  decide(head: RequestHead, body: Buffer | undefined): Route;
}

export type ProxySettings = Pick<GuardConfiguration, 'timeouts' | 'limits'>;

export interface ExchangeSettings extends ProxySettings {
  /** In memory now, over all exchanges. */
  readonly held: { bytes: number };
}

// The body of a request: in memory until it is complete or exceeds a limit, or passed on in pieces.
export const tooLarge: ErrorResponse = {
  status: 413,
  message: 'The request body is too large.',
  code: 'request_too_large',
};

interface BodyHandler {
  readonly isOver: boolean;
  refuse(error: ErrorResponse): void;
  expectResponse(): void;
}

export class HeldBody {
  private pieces: Buffer[] = [];
  private bytes = 0;

  constructor(
    private readonly request: IncomingMessage,
    private readonly settings: ExchangeSettings,
  ) {}

  /** Calls back with the body, or with undefined where it is too large; the rest of it then waits. */
  read(onRead: (body: Buffer | undefined) => void): void {
    const { request, pieces } = this;
    const { held, limits } = this.settings;
    const finish = (body: Buffer | undefined): void => {
      request.off('data', onData).off('end', onEnd);
      onRead(body);
    };
    const onData = (bytes: Buffer): void => {
      pieces.push(bytes);
      this.bytes += bytes.byteLength;
      held.bytes += bytes.byteLength;
      if (this.bytes <= limits.readSize && held.bytes <= limits.heldSize) return;
      request.pause();
      finish(undefined);
    };
    const onEnd = (): void => {
      finish(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces));
    };
    request.on('end', onEnd).on('data', onData);
  }

  /** Passes on what was read, and the rest as it comes. */
  stream(connection: Connection, handler: BodyHandler): void {
    const { request } = this;
    let left = this.settings.limits.requestSize - this.bytes;
    for (const piece of this.pieces) connection.write(piece);
    request.on('data', (bytes: Buffer) => {
      if (handler.isOver) return;
      left -= bytes.byteLength;
      if (left < 0) handler.refuse(tooLarge);
      else if (!connection.write(bytes)) request.pause();
    });
    request.once('end', () => {
      if (handler.isOver) return;
      connection.end();
      handler.expectResponse();
    });
    request.resume();
  }

  release(): void {
    this.settings.held.bytes -= this.bytes;
    this.bytes = 0;
    this.pieces = [];
  }
}
