/** Redis is killed and restarted, empty, while two guards judge requests: every request is judged exactly once. */
import { once, EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { Judge } from '../judge/judge.js';
import { hasRedis, startRedis } from '../../../test/support/guard/redis-server.js';
import { createRecord } from '../../../test/support/guard/traffic.js';
import type { JudgeState } from './judge-state.js';
import { openState } from './redis-state.js';

describe.skipIf(!hasRedis)('Redis under load', () => {
  it('may be killed and restarted: no request is lost, none is judged twice, and the guards agree again', async () => {
    let redis = await startRedis();
    const events = new EventEmitter();
    events.setMaxListeners(0);
    const judged = new Map<string, number>();
    const judges = [new Judge(), new Judge()];
    const states: JudgeState[] = [];
    for (const judge of judges)
      states.push(
        await openState(redis.url, judge, {
          onJudged: ({ id }) => {
            judged.set(id, (judged.get(id) ?? 0) + 1);
            events.emit('judged');
          },
          onNotice: () => undefined,
        }),
      );
    let sent = 0;
    const send = async (requests: number): Promise<void> => {
      for (let index = 0; index < requests; index++) {
        const id = `r${sent++}`;
        const steps = Array.from({ length: 40 }, (_, step) => (step + sent) % 4);
        states[sent % 2]!.observe(createRecord(steps, { id, endedMs: sent, tenant: `t${sent % 5}` }));
        if (index % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
    };
    // Notices would not do: on a busy machine a slow Redis counts as gone before it is killed.
    const until = async (isTrue: () => boolean): Promise<void> => {
      while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 10));
    };
    const isEvery = (connected: boolean) => () =>
      states.every(({ isConnected }) => isConnected === connected);
    const settle = async (): Promise<void> => {
      while (judged.size < sent) await once(events, 'judged');
    };
    for (let round = 0; round < 3; round++) {
      await send(300);
      await Promise.all([redis.stop(), send(100)]);
      await until(isEvery(false));
      await send(200);
      await settle();
      redis = await startRedis(redis.port);
      await until(isEvery(true));
      await send(100);
      await settle();
    }
    expect([...judged.values()].every((times) => times === 1)).toBe(true);
    expect(judged.size).toBe(sent);
    // Each reads the other's last requests a moment later.
    const saved = (judge: Judge): string => JSON.stringify(judge.save());
    await until(() => saved(judges[0]!) === saved(judges[1]!));
    await until(isEvery(true));
    for (const state of states) await state.close();
    await redis.stop();
  });
});
