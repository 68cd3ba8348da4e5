/** Holds request bodies until they are complete, within limits per body and in total. */
import type { IncomingMessage } from 'node:http';

export interface BodyAllowance {
  take(bytes: number): boolean;
  give(bytes: number): void;
}

export function createAllowance(maxBytes: number): BodyAllowance {
  let held = 0;
  return {
    take(bytes) {
      if (held + bytes > maxBytes) return false;
      held += bytes;
      return true;
    },
    give(bytes) {
      held -= bytes;
    },
  };
}

export interface HeldBody {
  /** Idempotent. */
  release(): void;
}

/**
 * Calls back when the body is complete or exceeds a limit; then the request is paused.
 * @param onReady called once; without a body where it exceeds a limit
 */
export function holdBody(
  request: IncomingMessage,
  maxBytes: number,
  allowance: BodyAllowance,
  onReady: (body: Buffer | undefined, pieces: readonly Buffer[]) => void,
): HeldBody {
  const pieces: Buffer[] = [];
  let held = 0;
  const onData = (bytes: Buffer): void => {
    pieces.push(bytes);
    const hasRoom = allowance.take(bytes.byteLength);
    if (hasRoom) held += bytes.byteLength;
    if (hasRoom && held <= maxBytes) return;
    finish();
    request.pause();
    onReady(undefined, pieces);
  };
  const onEnd = (): void => {
    finish();
    onReady(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces), pieces);
  };
  const finish = (): void => {
    request.off('data', onData);
    request.off('end', onEnd);
  };
  request.on('end', onEnd);
  request.on('data', onData);
  return {
    release() {
      allowance.give(held);
      held = 0;
    },
  };
}
