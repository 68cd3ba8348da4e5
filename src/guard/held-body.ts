/** Bodies of requests that are held until they are whole, within what may be held of one and of all together. */
import type { IncomingMessage } from 'node:http';

/** Room for the bodies that are held at one time. */
export interface BodyAllowance {
  take(bytes: number): boolean;
  give(bytes: number): void;
}

export function createAllowance(mostBytes: number): BodyAllowance {
  let held = 0;
  return {
    take(bytes) {
      if (held + bytes > mostBytes) return false;
      held += bytes;
      return true;
    },
    give(bytes) {
      held -= bytes;
    },
  };
}

export interface HeldBody {
  /** Gives its room back; once is enough. */
  release(): void;
}

/**
 * Calls back when the body is whole, or is more than may be held: then it pauses, and what is there of it must go on first.
 * @param onReady called once, with the whole body where it is, and always with the pieces that came
 */
export function holdBody(
  request: IncomingMessage,
  mostBytes: number,
  allowance: BodyAllowance,
  onReady: (body: Buffer | undefined, pieces: readonly Buffer[]) => void,
): HeldBody {
  const pieces: Buffer[] = [];
  let held = 0;
  const onData = (bytes: Buffer): void => {
    pieces.push(bytes);
    const hasRoom = allowance.take(bytes.byteLength);
    if (hasRoom) held += bytes.byteLength;
    if (hasRoom && held <= mostBytes) return;
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
