/** Connections to a queue. BullMQ and the Redis client are loaded here, and only if a queue is used. */
import { setTimeout } from 'node:timers/promises';
import type * as bullmq from 'bullmq';
import type { Redis } from 'ioredis';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { maxNameLength, readNotice, type RunNotice } from './queue-messages.js';

/** Queues of runs that are open: name -> RunNotice. */
const runsKey = 'mistletoe:runs';
const refusalsKey = (queue: string): string => `mistletoe:refusals:${queue}`;
const refusalSeconds = 3600;
const maxRefusal = 1000;
const maxRefusals = 1000;
const retryMs = 1000;
const connectMs = 5000;

export interface AnnouncedRun {
  readonly queue: string;
  readonly notice: RunNotice;
}

export class QueueConnection {
  private isLost = false;
  private lastFault = '';

  private constructor(
    readonly bull: typeof bullmq,
    readonly client: Redis,
    private readonly address: QueueAddress,
    private readonly onNotice: (message: string) => void,
  ) {
    client.on('error', (cause: unknown) => {
      this.noteError(cause);
    });
    client.on('ready', () => {
      if (this.isLost) onNotice(`The queue at ${address.shown} is back.`);
      this.isLost = false;
    });
  }

  /** Fails if the server cannot be reached now. Later it is waited for. */
  static async open(address: QueueAddress, onNotice: (message: string) => void): Promise<QueueConnection> {
    const [bull, { Redis: Client }] = await Promise.all([import('bullmq'), import('ioredis')]);
    const trial = new Client(address.url, {
      lazyConnect: true,
      connectTimeout: connectMs,
      maxRetriesPerRequest: 0,
      retryStrategy: () => null,
    });
    let seen: unknown;
    trial.on('error', (cause: unknown) => (seen ??= cause));
    try {
      await trial.connect();
      await trial.ping();
    } catch (cause) {
      throw new MistletoeError(
        'network',
        `The queue at ${address.shown} cannot be reached: ${address.hide(describeCause(seen ?? cause))}.`,
        { hint: 'Check the address, and that Redis or Valkey runs there and accepts the password.' },
      );
    } finally {
      trial.disconnect();
    }
    const client = new Client(address.url, { maxRetriesPerRequest: null, retryStrategy: () => retryMs });
    return new QueueConnection(bull, client, address, onNotice);
  }

  noteError(cause: unknown): void {
    const { shown } = this.address;
    const reason = this.address.hide(describeCause(cause));
    const fault = describeOwnFault(cause);
    if (fault !== undefined) {
      // BullMQ meets a corrupt entry again and again.
      if (reason !== this.lastFault) this.onNotice(`The queue at ${shown} ${fault}: ${reason}.`);
      this.lastFault = reason;
      return;
    }
    if (!this.isLost) this.onNotice(`The queue at ${shown} cannot be reached: ${reason}. Waiting for it.`);
    this.isLost = true;
  }

  async announce({ queue, notice }: AnnouncedRun): Promise<void> {
    await this.client.hset(runsKey, queue, JSON.stringify(notice));
  }

  async withdraw(queue: string): Promise<void> {
    await this.client.hdel(runsKey, queue);
    await this.client.del(refusalsKey(queue));
  }

  /** Entries that are not of this kind are left out. */
  async listRuns(): Promise<readonly AnnouncedRun[]> {
    const entries = Object.entries(await this.client.hgetall(runsKey));
    return entries.flatMap(([queue, text]) => {
      try {
        return /^mistletoe-[0-9a-f]{16}$/.test(queue) ? [{ queue, notice: readNotice(text) }] : [];
      } catch {
        return [];
      }
    });
  }

  /** Why a worker does not serve a run, for its submitter to show. */
  async refuse(queue: string, worker: string, reason: string): Promise<void> {
    await this.client.hset(refusalsKey(queue), worker, reason.slice(0, maxRefusal));
    await this.client.expire(refusalsKey(queue), refusalSeconds);
  }

  /** [worker, reason], untrusted. */
  async listRefusals(queue: string): Promise<readonly (readonly [string, string])[]> {
    const entries = Object.entries(await this.client.hgetall(refusalsKey(queue)));
    const clipped = entries.slice(0, maxRefusals);
    return clipped.map(([worker, reason]) => [worker.slice(0, maxNameLength), reason.slice(0, maxRefusal)]);
  }

  close(): void {
    this.client.disconnect();
  }
}

/** Undefined for faults of the connection. */
function describeOwnFault(cause: unknown): string | undefined {
  if (isUnreadable(cause)) return 'has an entry that cannot be read';
  return cause instanceof Error && cause.name === 'ReplyError' ? 'answered with an error' : undefined;
}

/** Whether it comes from parsing an entry, which BullMQ does before anything can be checked. */
export function isUnreadable(cause: unknown): boolean {
  return cause instanceof SyntaxError || cause instanceof TypeError || cause instanceof RangeError;
}

const closeMs = 2000;

/** False if it took longer: while Redis is away, nothing it was asked for ends. */
export async function withLimit(work: Promise<unknown>, limitMs = closeMs): Promise<boolean> {
  const timer = new AbortController();
  try {
    const limit = setTimeout(limitMs, false, { signal: timer.signal });
    return await Promise.race([work.then(() => true), limit]);
  } finally {
    timer.abort();
  }
}

// The address of a queue: redis://, rediss:// (TLS), valkey:// or valkeys://, with a password if there is one.
interface QueueAddress {
  /** With the password: for the client only. */
  readonly url: string;
  /** For people: without user and password. */
  readonly shown: string;
  /** Replaces the password wherever a library repeats it. */
  hide(text: string): string;
}

export function parseQueueUrl(given: string): QueueAddress {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url === undefined || !/^(?:redis|valkey)s?:$/.test(url.protocol) || url.hostname === '') {
    // What was given may contain a password, so it is not repeated.
    throw new MistletoeError('usage', 'The address of the queue is not a Redis URL.', {
      hint: 'Give redis://HOST:6379, rediss://HOST:6379 for TLS, or redis://:PASSWORD@HOST:6379/0.',
    });
  }
  const secrets = [url.password, decodeSecret(url.password)].filter((secret) => secret !== '');
  decodeSecret(url.username);
  const address = `${url.protocol}//${url.host}${url.pathname === '/' ? '' : url.pathname}`;
  return {
    url: given.replace(/^valkey(s?):/, 'redis$1:'),
    shown: address,
    hide: (text) => secrets.reduce((shown, secret) => shown.replaceAll(secret, '***'), text),
  };
}

function decodeSecret(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    throw new MistletoeError(
      'usage',
      'The user or password in the address of the queue has a % that two hex digits do not follow.',
      { hint: 'Write %25 for a percent sign, and %40 for an @.' },
    );
  }
}
