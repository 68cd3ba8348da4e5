/**
 * Bytes from one side to the other, no faster than the other side takes them. What is read on the way is read after it
 * has been passed on, and a piece at a time: nothing is held back and nothing is kept.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import { Deadline } from './deadline.js';
import { headersToPass, pairsOf, valuesOf } from './message-headers.js';

export interface ResponseTimeouts {
  /** Longest silence of the engine within an answer; zero waits for ever, as for the other. */
  readonly idleMs: number;
  /** Longest time in which the client takes nothing although there is something for it. */
  readonly clientMs: number;
}

/** `client-stalled` is our doing; a client that leaves is noticed elsewhere. */
export type ResponseEnding = 'complete' | 'upstream-failed' | 'client-stalled';

export interface ResponseListeners {
  readonly onBytes: (bytes: Buffer) => void;
  readonly onEnd: (ending: ResponseEnding) => void;
}

const noHeaders: readonly string[] = [];
const withoutTrailer: ReadonlySet<string> = new Set(['trailer']);

export class ResponsePassage {
  private readonly deadline = new Deadline();
  private isOver = false;
  private hasBody = false;

  constructor(
    private readonly from: IncomingMessage,
    private readonly to: ServerResponse,
    private readonly timeouts: ResponseTimeouts,
    private readonly listeners: ResponseListeners,
  ) {}

  /** @param extra header fields of our own, names and values by turns */
  start(extra: readonly string[] = noHeaders): void {
    const { from, to } = this;
    const { statusCode = 502, statusMessage = '', rawHeaders } = from;
    // Node refuses to announce trailers on an answer that cannot have any.
    const canTrail =
      to.req.httpVersionMinor > 0 &&
      to.req.method !== 'HEAD' &&
      valuesOf(rawHeaders, 'transfer-encoding').length > 0;
    to.sendDate = false; // the engine's own date passes, and none is made up
    to.writeHead(
      statusCode,
      statusMessage,
      headersToPass(rawHeaders, { with: extra, ...(canTrail ? {} : { without: withoutTrailer }) }),
    );
    from.on('data', this.pass);
    from.once('end', () => {
      if (this.isOver) return;
      if (from.rawTrailers.length > 0 && canTrail) to.addTrailers(pairsOf(from.rawTrailers));
      to.end();
      this.end('complete');
    });
    const fail = (): void => {
      // What came before the failure and waits for a slow client was answered, too.
      for (let rest = from.read() as Buffer | null; rest !== null; rest = from.read() as Buffer | null) {
        if (!this.isOver) this.pass(rest);
      }
      this.end('upstream-failed');
    };
    from.once('error', fail);
    from.once('close', fail); // after 'end' it is over already
    to.on('timeout', () => {
      this.end('client-stalled');
    });
    this.waitForEngine();
    // The first piece mostly came with the head, and both go out as one; a head without one must not wait for it.
    setImmediate(() => {
      if (!this.hasBody && !this.isOver) to.flushHeaders();
    });
  }

  /** The client has left: the rest is not wanted. */
  stop(): void {
    this.isOver = true;
    this.deadline.clear();
  }

  private readonly pass = (bytes: Buffer): void => {
    if (this.isOver) return;
    this.hasBody = true;
    const isTaken = this.to.write(bytes);
    if (isTaken) this.deadline.prolong();
    else this.pauseUntilTaken();
    this.listeners.onBytes(bytes);
  };

  /** A client that takes a byte now and then is slow, not gone: the socket's clock begins anew with each of them. */
  private pauseUntilTaken(): void {
    const { from, to, timeouts } = this;
    from.pause();
    this.deadline.clear();
    to.setTimeout(timeouts.clientMs);
    to.once('drain', () => {
      if (this.isOver) return;
      to.setTimeout(0);
      this.waitForEngine();
      from.resume();
    });
  }

  private waitForEngine(): void {
    this.deadline.wait(this.timeouts.idleMs, () => {
      this.end('upstream-failed');
    });
  }

  private end(ending: ResponseEnding): void {
    if (this.isOver) return;
    this.isOver = true;
    this.deadline.clear();
    this.listeners.onEnd(ending);
  }
}

/**
 * What was passed on still reaches the client; then its connection is closed in the middle of the message, which is how
 * it would have learnt of the failure without us.
 */
export function breakOff(response: ServerResponse): void {
  const { socket } = response;
  if (socket === null) response.destroy();
  else socket.destroySoon();
}

export interface RequestListeners {
  /** Everything has been handed over. */
  readonly onEnd: () => void;
  /** More came than may come. */
  readonly onTooLarge: () => void;
}

/** A body that is not read here, after what of it is already there. Returns what stops it. */
export function passRequestBody(
  from: IncomingMessage,
  to: Writable & { addTrailers(pairs: [string, string][]): void },
  mostBytes: number,
  { onEnd, onTooLarge }: RequestListeners,
): () => void {
  let left = mostBytes;
  const onDrain = (): void => {
    from.resume();
  };
  const onData = (bytes: Buffer): void => {
    left -= bytes.byteLength;
    if (left < 0) {
      stop();
      onTooLarge();
    } else if (!to.write(bytes)) {
      from.pause();
    }
  };
  const onFromEnd = (): void => {
    stop();
    if (from.rawTrailers.length > 0) to.addTrailers(pairsOf(from.rawTrailers));
    to.end();
    onEnd();
  };
  const stop = (): void => {
    from.off('data', onData);
    from.off('end', onFromEnd);
    to.off('drain', onDrain);
  };
  to.on('drain', onDrain);
  from.on('end', onFromEnd);
  from.on('data', onData);
  from.resume();
  return stop;
}
