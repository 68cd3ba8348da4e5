import { once } from 'node:events';
import { EventEmitter } from 'node:events';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Judge } from '../judge/judge.js';
import type { ActionEvent, Judgment } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import { hasRedis, startRedis } from '../../../test/support/guard/redis-server.js';
import { createRecord } from '../../../test/support/guard/traffic.js';
import type { JudgeState } from './judge-state.js';
import { openState } from './redis-state.js';

if (!hasRedis)
  process.stderr.write('redis-server is not installed: tests of the shared state are skipped.\n');

const open: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

interface TestGuard {
  readonly state: JudgeState;
  readonly judge: Judge;
  readonly shared: ActionEvent[];
  readonly notices: string[];
  /** Resolves with the judgment. */
  observe(observation: Observation): Promise<Judgment>;
  readonly events: EventEmitter;
}

async function startGuard(url: string): Promise<TestGuard> {
  const judge = new Judge({ measures: { action: 'plain-upstream' } });
  const events = new EventEmitter();
  const shared: ActionEvent[] = [];
  const notices: string[] = [];
  const state = await openState(url, judge, {
    onJudged: (observation, judgment) => events.emit(observation.id, judgment),
    onShared: (_, actions) => {
      shared.push(...actions);
      events.emit('shared');
    },
    onNotice: (message) => {
      notices.push(message);
      events.emit('notice');
    },
  });
  open.push(() => state.close());
  return {
    ...{ state, judge, shared, notices, events },
    async observe(observation) {
      const judged = once(events, observation.id);
      state.observe(observation);
      return ((await judged) as [Judgment])[0];
    },
  };
}

let count = 0;
const request = (tenant: string, accepted: number): Observation =>
  createRecord(
    Array.from({ length: 43 }, () => accepted),
    { id: `r${++count}`, endedMs: count * 1000, tenant },
  );

describe.skipIf(!hasRedis)('guards that share their state', () => {
  it('judge as one: an attacker that alternates between them is measured after 3 requests, on both', async () => {
    const redis = await startRedis();
    open.push(() => redis.stop());
    const [one, other] = [await startGuard(redis.url), await startGuard(redis.url)];
    expect([one.state.isConnected, other.state.isConnected]).toEqual([true, true]);
    for (let index = 0; index < 20; index++) {
      const { verdict } = await (index % 2 === 0 ? one : other).observe(request(`tenant-${index % 3}`, 2));
      expect(verdict.name).toBe('learning');
    }
    await one.observe(request('attacker', 0));
    await other.observe(request('attacker', 0));
    const heard = once(other.events, 'shared');
    const { actions } = await one.observe(request('attacker', 0));
    expect(actions).toMatchObject([{ change: 'applied', tenant: 'attacker' }]);
    await heard;
    expect(other.shared).toEqual(actions);
    for (const { state } of [one, other]) expect(state.decide('attacker', 0).kind).toBe('plain-upstream');
    // A guard that joins later knows it, too.
    const late = await startGuard(redis.url);
    expect(late.state.decide('attacker', 0).kind).toBe('plain-upstream');
    expect(late.judge.save()).toEqual(one.judge.save());
  });

  it('start without Redis, judge alone, and join when it comes up', async () => {
    const probe = await startRedis();
    await probe.stop();
    const alone = await startGuard(probe.url);
    expect(alone.state.isConnected).toBe(false);
    expect(alone.notices.join()).toContain('cannot be used');
    await alone.observe(request('attacker', 0));
    await alone.observe(request('attacker', 0));
    const back = once(alone.events, 'notice');
    const redis = await startRedis(probe.port);
    open.push(() => redis.stop());
    await back;
    expect(alone.state.isConnected).toBe(true);
    const other = await startGuard(redis.url);
    const { actions } = await other.observe(request('attacker', 0));
    expect(actions).toMatchObject([{ change: 'applied' }]);
  });

  it('stay joined after they append a long backlog', async () => {
    const probe = await startRedis();
    await probe.stop();
    const alone = await startGuard(probe.url);
    const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() - 60_000);
    for (let index = 0; index < 1200; index++) await alone.observe(request('a', 2));
    clock.mockRestore();
    const back = once(alone.events, 'notice');
    const redis = await startRedis(probe.port);
    open.push(() => redis.stop());
    const other = await startGuard(redis.url);
    await back;
    // Judged after the backlog was read back.
    await alone.observe(request('a', 2));
    expect([alone.notices.length, alone.state.isConnected]).toEqual([2, true]);
    await vi.waitUntil(
      () => JSON.stringify(other.judge.save()) === JSON.stringify(alone.judge.save()),
      10_000,
    );
  });
});
