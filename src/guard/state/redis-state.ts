/**
 * State shared through Redis or Valkey. Every guard appends what it observes to one stream and judges all its entries in
 * their order. The judge is deterministic, so all guards judge as one. Without Redis each guard judges with the state it
 * has; when Redis is back, it loads the shared state and appends what it judged alone.
 */
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { describeCause } from '../../core/errors.js';
import type { Judge } from '../judge/judge.js';
import type { Decision } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import { type JudgeState, type StateCallbacks, packState, unpackState } from './judge-state.js';
import type { Entry, Numbered, ReadEntry } from './redis-log.js';
import { appendEntry, keys, readEntry, storeSnapshot } from './redis-log.js';

const maxBacklog = 10_000;
const batch = 500;
const blockMs = 1000;
const answerWithinMs = 3000;
const retryMs = 500;
const snapshotEvery = { entries: 500, ms: 30_000 } as const;

/** @param url redis://host:port, rediss:// or valkey://; undefined keeps the state in this process */
export async function openState(
  url: string | undefined,
  judge: Judge,
  callbacks: StateCallbacks,
): Promise<JudgeState> {
  if (url === undefined)
    return {
      isConnected: null,
      decide: (tenant, atMs) => judge.decide(tenant, atMs),
      observe(observation) {
        callbacks.onJudged(observation, judge.judge(observation));
      },
      close: () => Promise.resolve(),
    };
  const { Redis: Client } = await import('ioredis');
  const connect = (more?: { readonly commandTimeout: number }): Redis =>
    new Client(url.replace(/^valkey(s?):/, 'redis$1:'), {
      lazyConnect: true,
      enableOfflineQueue: false,
      connectTimeout: answerWithinMs,
      maxRetriesPerRequest: 0,
      retryStrategy: () => retryMs,
      ...more,
    });
  const state = new RedisState(connect, judge, callbacks);
  await state.open();
  return state;
}

class RedisState implements JudgeState {
  isConnected = false;
  private readonly guard = randomUUID();
  private readonly commands: Redis;
  private readonly reader: Redis;
  private count = 0;
  private lastId = '0-0';
  /** Appended and not read back yet. */
  private readonly pending = new Map<number, Numbered>();
  /** Judged alone; appended when Redis is back. */
  private backlog: Numbered[] = [];
  /** Observed while joining. */
  private waiting: Observation[] | undefined;
  private epoch = 0; // ends the loops of earlier connections
  private isClosed = false;
  private hasWarned = false;
  private reading: Promise<void> = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;
  private sinceSnapshot = { entries: 0, atMs: Date.now() };
  private readonly onFailure = (cause: unknown): void => {
    this.leave(cause);
  };

  constructor(
    connect: (more?: { readonly commandTimeout: number }) => Redis,
    private readonly judge: Judge,
    private readonly callbacks: StateCallbacks,
  ) {
    this.commands = connect({ commandTimeout: answerWithinMs });
    this.reader = connect();
    for (const client of [this.commands, this.reader]) client.on('error', this.onFailure);
  }

  /** Starts without Redis if it is not reachable, and joins later. */
  async open(): Promise<void> {
    await Promise.all([this.commands, this.reader].map((client) => client.connect().catch(ignore)));
    await this.join();
    this.timer = setInterval(() => {
      void this.tend();
    }, retryMs);
    this.timer.unref();
  }

  decide(tenant: string, atMs: number): Decision {
    return this.judge.decide(tenant, atMs);
  }

  observe(observation: Observation): void {
    if (this.waiting !== undefined) {
      this.waiting.push(observation);
      return;
    }
    const item = { number: ++this.count, observation, atMs: Date.now() };
    if (!this.isConnected) {
      this.judgeAlone(item);
      return;
    }
    this.pending.set(item.number, item);
    appendEntry(this.commands, this.guard, item).catch(this.onFailure);
  }

  async close(): Promise<void> {
    clearInterval(this.timer);
    const deadline = Date.now() + answerWithinMs;
    while (this.isConnected && this.pending.size > 0 && Date.now() < deadline)
      await new Promise((resolve) => setTimeout(resolve, 5));
    if (this.isConnected) await this.saveSnapshot('newer').catch(ignore);
    this.leave(undefined);
    this.isClosed = true;
    this.commands.disconnect();
    this.reader.disconnect();
    await this.reading;
  }

  private async tend(): Promise<void> {
    if (this.isClosed) return;
    const [oldest] = this.pending.values();
    if (oldest !== undefined && Date.now() - oldest.atMs > 2 * answerWithinMs)
      this.leave(new Error('appended requests did not come back'));
    if (!this.isConnected && this.waiting === undefined) await this.join();
  }

  /** Loads the shared state, adds what was judged alone, and follows the stream. */
  private async join(): Promise<void> {
    if (this.commands.status !== 'ready' || this.reader.status !== 'ready') {
      this.warn('it is not reachable');
      return;
    }
    const epoch = ++this.epoch;
    this.waiting = [];
    try {
      const known = new Set<number>();
      if (!(await this.saveSnapshot('first'))) {
        const [id, state] = await this.commands.hmget(keys.snapshot, 'id', 'state');
        this.judge.restore(unpackState(state ?? 'null'));
        this.lastId = id!;
      } else this.backlog = []; // this guard's state became the shared one, with everything it judged alone
      await this.catchUp(known);
      for (const item of this.backlog)
        if (!known.has(item.number)) await appendEntry(this.commands, this.guard, item);
      this.backlog = [];
      this.isConnected = true;
      const message = 'The shared state is reachable again; this guard has rejoined.';
      if (this.hasWarned) this.callbacks.onNotice?.(message);
      this.hasWarned = false;
      this.reading = this.follow(epoch);
    } catch (cause) {
      this.warn(describeCause(cause));
    } finally {
      const { waiting } = this;
      this.waiting = undefined;
      for (const observation of waiting) this.observe(observation);
    }
  }

  /** Applies entries that this guard missed; its own were reported when it judged them alone. */
  private async catchUp(known: Set<number>): Promise<void> {
    for (;;) {
      const entries = await this.commands.xrange(keys.log, `(${this.lastId}`, '+', 'COUNT', batch);
      for (const entry of entries) {
        const read = this.take(entry);
        if (read === undefined) continue;
        if (read.guard === this.guard) known.add(read.number);
        this.judge.judge(read.observation);
      }
      if (entries.length < batch) return;
    }
  }

  private async follow(epoch: number): Promise<void> {
    const isCurrent = (): boolean => epoch === this.epoch && this.isConnected;
    while (isCurrent()) {
      try {
        const place = ['STREAMS', keys.log, this.lastId] as const;
        const found = await this.reader.xread('COUNT', batch, 'BLOCK', blockMs, ...place);
        if (!isCurrent()) return;
        for (const entry of (found?.[0]?.[1] ?? []) as readonly Entry[]) this.apply(entry);
        const { entries, atMs } = this.sinceSnapshot;
        if (entries >= snapshotEvery.entries && Date.now() - atMs >= snapshotEvery.ms)
          await this.saveSnapshot('newer');
      } catch (cause) {
        if (isCurrent()) this.leave(cause);
        return;
      }
    }
  }

  private apply(entry: Entry): void {
    const read = this.take(entry);
    if (read === undefined) return;
    this.sinceSnapshot.entries += 1;
    const own = read.guard === this.guard ? this.pending.get(read.number) : undefined;
    const judgment = this.judge.judge(read.observation);
    if (own !== undefined) {
      this.pending.delete(read.number);
      this.callbacks.onJudged(own.observation, judgment);
    } else if (read.guard !== this.guard && judgment.alerts.length + judgment.actions.length > 0) {
      this.callbacks.onShared?.(judgment.alerts, judgment.actions);
    }
  }

  private take(entry: Entry): ReadEntry | undefined {
    [this.lastId] = entry;
    return readEntry(entry);
  }

  private saveSnapshot(mode: 'first' | 'newer'): Promise<boolean> {
    this.sinceSnapshot = { entries: 0, atMs: Date.now() };
    return storeSnapshot(this.commands, this.lastId, packState(this.judge), mode);
  }

  /** From now on this guard judges alone; what was appended and not read back is judged at once. */
  private leave(cause: unknown): void {
    if (!this.isConnected) return;
    this.isConnected = false;
    this.epoch += 1;
    if (cause !== undefined) this.warn(describeCause(cause));
    const pending = [...this.pending.values()];
    this.pending.clear();
    for (const item of pending) this.judgeAlone(item);
  }

  private judgeAlone(item: Numbered): void {
    this.backlog.push(item);
    if (this.backlog.length > maxBacklog) this.backlog.shift();
    this.callbacks.onJudged(item.observation, this.judge.judge(item.observation));
  }

  private warn(reason: string): void {
    if (this.hasWarned || this.isClosed) return;
    this.hasWarned = true;
    const consequence = 'Requests continue; this guard judges with the state it has and rejoins later.';
    this.callbacks.onNotice?.(`The shared state cannot be used (${reason}). ${consequence}`);
  }
}

const ignore = (): void => undefined;
