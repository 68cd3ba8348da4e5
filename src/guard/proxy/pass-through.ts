/** Passes bytes with backpressure. The watcher reads each piece after it was passed on, so reading delays nothing. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import { Deadline } from './deadline.js';
import { headersToPass, pairsOf, valuesOf } from './message-headers.js';
import type { ResponseStrip } from './response-strip.js';
import { createResponseStrip } from './response-strip.js';
import type { Strip } from './telemetry-request.js';

export interface ResponseTimeouts {
  /** Max silence of the engine within a response; 0 for no limit, as below. */
  readonly idleMs: number;
  /** Max time in which the client reads nothing. */
  readonly clientMs: number;
}

/** A client that disconnects is noticed elsewhere. */
export type ResponseEnding = 'complete' | 'upstream-failed' | 'client-stalled';

export interface ResponseListeners {
  readonly onBytes: (bytes: Buffer) => void;
  readonly onEnd: (ending: ResponseEnding) => void;
}

const withoutTrailer: ReadonlySet<string> = new Set(['trailer']);
const withoutLength: ReadonlySet<string> = new Set(['trailer', 'content-length']);

export class ResponsePassage {
  private readonly deadline = new Deadline();
  private isOver = false;
  private hasBody = false;
  private strip: ResponseStrip | undefined;

  constructor(
    private readonly from: IncomingMessage,
    private readonly to: ServerResponse,
    private readonly timeouts: ResponseTimeouts,
    private readonly listeners: ResponseListeners,
  ) {}

  start(strip?: Strip): void {
    const { from, to } = this;
    const { rawHeaders } = from;
    this.strip =
      strip === undefined ? undefined : createResponseStrip(strip, from.headers['content-type'] ?? '');
    // Node refuses to announce trailers on a response that cannot have any.
    const canTrail =
      to.req.httpVersionMinor > 0 &&
      to.req.method !== 'HEAD' &&
      strip === undefined &&
      valuesOf(rawHeaders, 'transfer-encoding').length > 0;
    to.sendDate = false; // the engine's own date passes
    if (this.strip?.isWhole !== true) {
      const kept = canTrail ? undefined : withoutTrailer;
      this.writeHead(this.strip === undefined ? kept : withoutLength); // its length changes
    }
    from.on('data', this.pass);
    from.once('end', () => {
      if (this.isOver) return;
      this.writeRest();
      if (from.rawTrailers.length > 0 && canTrail) to.addTrailers(pairsOf(from.rawTrailers));
      to.end();
      this.end('complete');
    });
    const fail = (): void => {
      // Bytes that came before the failure and wait for a slow client still pass.
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
    // The first piece mostly comes with the head, and both leave as one packet; a head without one must not wait.
    setImmediate(() => {
      if (!this.hasBody && !this.isOver && this.strip?.isWhole !== true) to.flushHeaders();
    });
  }

  private writeHead(without: ReadonlySet<string> | undefined, extra?: readonly string[]): void {
    const { statusCode = 502, statusMessage = '', rawHeaders } = this.from;
    this.to.writeHead(statusCode, statusMessage, headersToPass(rawHeaders, { without, with: extra }));
  }

  private writeRest(): void {
    if (this.strip === undefined) return;
    const rest = this.strip.finish();
    if (this.strip.isWhole) this.writeHead(withoutLength, ['Content-Length', String(rest.byteLength)]);
    if (rest.byteLength > 0) this.to.write(rest);
  }

  /** The client has disconnected. */
  stop(): void {
    this.isOver = true;
    this.deadline.clear();
  }

  private readonly pass = (bytes: Buffer): void => {
    if (this.isOver) return;
    this.hasBody = true;
    const passed = this.strip === undefined ? bytes : this.strip.push(bytes);
    if (passed.byteLength === 0 || this.to.write(passed)) this.deadline.prolong();
    else this.pauseUntilTaken();
    this.listeners.onBytes(bytes);
  };

  /** The socket's timeout restarts with every byte the client reads. */
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

/** Sends what was passed on, then closes the connection within the message, as the engine did. */
export function breakOff(response: ServerResponse): void {
  const { socket } = response;
  if (socket === null) response.destroy();
  else socket.destroySoon();
}

export interface RequestListeners {
  readonly onEnd: () => void;
  readonly onTooLarge: () => void;
}

/** Passes a body on without reading it. Returns a function that stops it. */
export function passRequestBody(
  from: IncomingMessage,
  to: Writable & { addTrailers(pairs: [string, string][]): void },
  maxBytes: number,
  { onEnd, onTooLarge }: RequestListeners,
): () => void {
  let left = maxBytes;
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
