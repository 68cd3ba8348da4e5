/** The body of a request in memory, until it is complete, exceeds a limit, or the engine responds. */
import type { IncomingMessage } from 'node:http';
import type { ExchangeSettings } from './exchange-route.js';

export class HeldBody {
  /** What was read. */
  readonly pieces: Buffer[] = [];
  bytes = 0;

  constructor(private readonly settings: ExchangeSettings) {}

  /** Calls back with the body, or with undefined where it is too large; the rest of it then waits. */
  read(request: IncomingMessage, onRead: (body: Buffer | undefined) => void): void {
    const { pieces } = this;
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

  release(): void {
    this.settings.held.bytes -= this.bytes;
    this.bytes = 0;
    this.pieces.length = 0;
  }
}
