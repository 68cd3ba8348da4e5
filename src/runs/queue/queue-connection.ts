/** Connections to a queue. BullMQ and the Redis client are loaded here, and only if a queue is used. */
import { setTimeout } from 'node:timers/promises';
import type * as bullmq from 'bullmq';
import type { Redis } from 'ioredis';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { noticeSchema, type RunNotice } from './queue-messages.js';

/** Queues of runs that are open: name -> RunNotice. */
const runsKey = 'mistletoe:runs';
const refusalsKey = (queue: string): string => `mistletoe:refusals:${queue}`;
const refusalSeconds = 3600;
const maxRefusal = 1000;
const retryMs = 1000;
const connectMs = 5000;

export interface AnnouncedRun {
  readonly queue: string;
  readonly notice: RunNotice;
}

export class QueueConnection {
  private isLost = false;

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
    if (!this.isLost)
      this.onNotice(
        `The queue at ${this.address.shown} cannot be reached: ${this.address.hide(describeCause(cause))}. Waiting for it.`,
      );
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
        return /^mistletoe-[0-9a-f]{16}$/.test(queue)
          ? [{ queue, notice: noticeSchema.parse(JSON.parse(text)) }]
          : [];
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

  async listRefusals(queue: string): Promise<Readonly<Record<string, string>>> {
    return this.client.hgetall(refusalsKey(queue));
  }

  close(): void {
    this.client.disconnect();
  }
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
  const secrets = [url.password, decodeURIComponent(url.password)].filter((secret) => secret !== '');
  const address = `${url.protocol}//${url.host}${url.pathname === '/' ? '' : url.pathname}`;
  return {
    url: given.replace(/^valkey(s?):/, 'redis$1:'),
    shown: address,
    hide: (text) => secrets.reduce((shown, secret) => shown.replaceAll(secret, '***'), text),
  };
}
