/** The body of a request: in memory until it is complete or exceeds a limit, or passed on in pieces. */
import type { IncomingMessage } from 'node:http';
import type { Connection } from './connection.js';
import type { ExchangeSettings } from './exchange-route.js';
import type { ErrorResponse } from './message-headers.js';

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
  /** What was read. */
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
