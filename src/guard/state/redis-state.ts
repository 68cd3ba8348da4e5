/**
 * State shared through Redis or Valkey. Every guard appends what it observes to one stream and judges all its entries in
 * their order. The judge is deterministic, so all guards judge as one. Without Redis each guard judges with the state it
 * has; when Redis is back, it loads the shared state and appends what it judged alone.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { describeCause } from '../../core/errors.js';
import type { Judge } from '../judge/judge.js';
import type { Decision } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import { readRecordLine } from '../records/record-log.js';
import { type JudgeState, type StateCallbacks, packState, unpackState } from './judge-state.js';

/** The braces keep both keys in one slot of a cluster. */
const keys = { log: '{mistletoe-guard}:log', snapshot: '{mistletoe-guard}:snapshot' } as const;
const maxEntries = 50_000;
const maxUnread = 10_000;
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
  const connect = (): Redis =>
    new Client(url.replace(/^valkey(s?):/, 'redis$1:'), {
      lazyConnect: true,
      enableOfflineQueue: false,
      connectTimeout: answerWithinMs,
      commandTimeout: blockMs + answerWithinMs,
      maxRetriesPerRequest: 0,
      retryStrategy: () => retryMs,
    });
  const state = new RedisState(connect(), connect(), judge, callbacks);
  await state.open();
  return state;
}

/** One of this guard's own observations, which has not been read back from the stream. */
interface Unread {
  readonly number: number;
  readonly observation: Observation;
  appendedMs: number;
  /** Without the others; the judgment has been reported. */
  isJudged: boolean;
}

type Entry = readonly [id: string, fields: readonly string[]];

class RedisState implements JudgeState {
  private mode: 'alone' | 'joining' | 'connected' = 'alone';
  private readonly guard = randomUUID();
  private count = 0;
  private lastId = '0-0';
  /** By number, oldest first. */
  private readonly unread = new Map<number, Unread>();
  private readonly closing = new AbortController();
  private hasWarned = false;
  private running: Promise<void> = Promise.resolve();
  private sinceSnapshot = { entries: 0, atMs: Date.now() };

  constructor(
    private readonly commands: Redis,
    /** Reading blocks the connection. */
    private readonly reader: Redis,
    private readonly judge: Judge,
    private readonly callbacks: StateCallbacks,
  ) {
    for (const client of [commands, reader]) client.on('error', this.onFailure);
  }

  get isConnected(): boolean {
    return this.mode === 'connected';
  }

  /** Starts without Redis if it is not reachable, and joins later. */
  async open(): Promise<void> {
    await Promise.all([this.commands, this.reader].map((client) => client.connect().catch(ignore)));
    await this.join();
    this.running = this.run();
  }

  decide(tenant: string, atMs: number): Decision {
    return this.judge.decide(tenant, atMs);
  }

  /** What comes while this guard joins is appended when it has caught up. */
  observe(observation: Observation): void {
    const item = { number: ++this.count, observation, appendedMs: 0, isJudged: false };
    this.unread.set(item.number, item);
    if (this.mode === 'alone') this.judgeAlone(item);
    else if (this.mode === 'connected') this.append(item).catch(this.onFailure);
  }

  async close(): Promise<void> {
    const deadline = Date.now() + answerWithinMs;
    while (this.isConnected && this.unread.size > 0 && Date.now() < deadline) await wait(5);
    if (this.isConnected) await this.saveSnapshot('newer').catch(ignore);
    this.closing.abort();
    this.leave(undefined);
    this.commands.disconnect();
    this.reader.disconnect();
    await this.running;
  }

  private async run(): Promise<void> {
    const { signal } = this.closing;
    while (!signal.aborted) {
      try {
        while (this.isConnected) await this.follow();
      } catch (cause) {
        this.onFailure(cause);
      }
      await wait(retryMs, undefined, { signal, ref: false }).then(() => this.join(), ignore);
    }
  }

  /** Loads the shared state, adds what was judged alone, and catches up with the stream. */
  private async join(): Promise<void> {
    this.mode = 'joining';
    try {
      if (this.commands.status !== 'ready' || this.reader.status !== 'ready')
        throw new Error('it is not reachable');
      if (await this.saveSnapshot('first')) {
        // This guard's state became the shared one, with everything it judged alone.
        for (const { number, isJudged } of this.unread.values()) if (isJudged) this.unread.delete(number);
      } else {
        const [id, state] = await this.commands.hmget(keys.snapshot, 'id', 'state');
        this.judge.restore(unpackState(state ?? 'null'));
        this.lastId = id!;
      }
      await this.catchUp();
      for (const item of [...this.unread.values()].filter(({ isJudged }) => isJudged)) {
        await this.append(item);
        this.unread.delete(item.number); // nothing waits for it to come back
      }
      this.mode = 'connected';
      for (const item of this.unread.values()) this.append(item).catch(this.onFailure);
      const message = 'The shared state is reachable again; this guard has rejoined.';
      if (this.hasWarned) this.callbacks.onNotice?.(message);
      this.hasWarned = false;
    } catch (cause) {
      this.leave(cause);
    }
  }

  /** Judges entries that this guard missed; its own were reported when it judged them alone. */
  private async catchUp(): Promise<void> {
    for (;;) {
      const entries = await this.commands.xrange(keys.log, `(${this.lastId}`, '+', 'COUNT', batch);
      for (const entry of entries) this.apply(entry, true);
      if (entries.length < batch) return;
    }
  }

  /** Judges what was appended, or waits for it. */
  private async follow(): Promise<void> {
    const place = ['STREAMS', keys.log, this.lastId] as const;
    const found = await this.reader.xread('COUNT', batch, 'BLOCK', blockMs, ...place);
    if (!this.isConnected) return;
    for (const entry of (found?.[0]?.[1] ?? []) as readonly Entry[]) this.apply(entry, false);
    const [oldest] = this.unread.values();
    if (oldest !== undefined && Date.now() - oldest.appendedMs > 2 * answerWithinMs)
      throw new Error('appended requests did not come back');
    const { entries, atMs } = this.sinceSnapshot;
    if (entries >= snapshotEvery.entries && Date.now() - atMs >= snapshotEvery.ms)
      await this.saveSnapshot('newer');
  }

  private apply([id, fields]: Entry, isCatchingUp: boolean): void {
    this.lastId = id;
    this.sinceSnapshot.entries += 1;
    const [, guard, , number, , text = ''] = fields;
    const line = readRecordLine(text);
    if (line === undefined || 'fault' in line) return; // of another version
    const own = guard === this.guard ? this.unread.get(Number(number)) : undefined;
    if (own !== undefined) this.unread.delete(own.number);
    const judgment = this.judge.judge(line.record);
    if (own?.isJudged === false) this.callbacks.onJudged(own.observation, judgment);
    const { alerts, actions } = judgment;
    const isNews = guard !== this.guard && !isCatchingUp && alerts.length + actions.length > 0;
    if (isNews) this.callbacks.onShared?.(alerts, actions);
  }

  private append(item: Unread): Promise<unknown> {
    item.appendedMs = Date.now();
    const { number, observation } = item;
    // Fields that no judgment depends on stay with this guard's records.
    const { speculation: counts } = observation;
    const speculation = counts && { ...counts, perStepAccepted: null, histogram: null };
    const text = JSON.stringify({ ...observation, speculation });
    const fields = ['guard', this.guard, 'number', number, 'observation', text] as const;
    return this.commands.xadd(keys.log, 'MAXLEN', '~', maxEntries, '*', ...fields);
  }

  /** Returns whether it was stored: only the first one, or one that is newer than the known one. */
  private async saveSnapshot(mode: 'first' | 'newer'): Promise<boolean> {
    this.sinceSnapshot = { entries: 0, atMs: Date.now() };
    const state = packState(this.judge);
    return (await this.commands.eval(storeIfNewer, 1, keys.snapshot, this.lastId, state, mode)) === 1;
  }

  private readonly onFailure = (cause: unknown): void => {
    if (this.isConnected) this.leave(cause);
  };

  /** From now on this guard judges alone; what was appended and not read back is judged at once. */
  private leave(cause: unknown): void {
    this.mode = 'alone';
    for (const item of this.unread.values()) if (!item.isJudged) this.judgeAlone(item);
    if (this.hasWarned || this.closing.signal.aborted) return;
    this.hasWarned = true;
    const consequence = 'Requests continue; this guard judges with the state it has and rejoins later.';
    this.callbacks.onNotice?.(`The shared state cannot be used (${describeCause(cause)}). ${consequence}`);
  }

  private judgeAlone(item: Unread): void {
    item.isJudged = true;
    const [oldest] = this.unread.keys();
    if (this.unread.size > maxUnread) this.unread.delete(oldest!);
    this.callbacks.onJudged(item.observation, this.judge.judge(item.observation));
  }
}

const storeIfNewer = `
  local known = redis.call('HGET', KEYS[1], 'id')
  if known then
    if ARGV[3] == 'first' then return 0 end
    local kt, kn = string.match(known, '(%d+)-(%d+)')
    local nt, nn = string.match(ARGV[1], '(%d+)-(%d+)')
    if tonumber(nt) < tonumber(kt) then return 0 end
    if tonumber(nt) == tonumber(kt) and tonumber(nn) <= tonumber(kn) then return 0 end
  end
  redis.call('HSET', KEYS[1], 'id', ARGV[1], 'state', ARGV[2])
  return 1
`;

const ignore = (): void => undefined;
