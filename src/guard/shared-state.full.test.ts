/** Two guards behind a load balancer share their state, and redis-server is killed and restarted under load. */
import { EventEmitter, once } from 'node:events';
import { expect, it } from 'vitest';
import { startFakeEngine } from '../../test/support/guard/fake-engine.js';
import { hasRedis, startRedis } from '../../test/support/guard/redis-server.js';
import { configureGuard } from './config-file.js';
import { startGuard } from './guard.js';
import type { PageState } from './metrics/page-state.js';

it.skipIf(!hasRedis)(
  'loses no request while Redis is gone, and measures an alternating attacker after 3 requests',
  async () => {
    let redis = await startRedis();
    const [engine, plain] = [await startFakeEngine(), await startFakeEngine()];
    const settings = configureGuard({
      ...{ upstream: engine.url, plainUpstream: plain.url, state: redis.url, port: 0, operator: { port: 0 } },
      tenant: { from: 'header', header: 'x-team' },
      mitigation: { action: 'plain-upstream' },
      metrics: { compareEvery: 0 },
    });
    const events = [new EventEmitter(), new EventEmitter()];
    const guards = await Promise.all(
      events.map((emitter) =>
        startGuard(settings, {
          onNotice: (message) => emitter.emit('notice', message),
          onEvent: (name) => emitter.emit(name),
        }),
      ),
    );
    const nextOfBoth = (name: string): Promise<unknown[][]> =>
      Promise.all(events.map((emitter) => once(emitter, name) as Promise<unknown[]>));
    const progress = new EventEmitter();
    let sent = 0;
    const statuses: number[] = [];
    const ask = async (team: string): Promise<void> => {
      const response = await fetch(`${guards[sent++ % 2]!.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-team': team },
        body: JSON.stringify({ model: 'm', messages: [] }),
      });
      await response.text();
      statuses.push(response.status);
      progress.emit('answer');
    };
    const countAnswers = async (count: number): Promise<void> => {
      for (let left = count; left > 0; left--) await once(progress, 'answer');
    };

    engine.accepted = Array.from({ length: 40 }, (_, step) => step % 4);
    let isLoaded = true;
    const load = Array.from({ length: 4 }, async (_, client) => {
      while (isLoaded) await ask(`benign-${client}`);
    });
    for (let round = 0; round < 2; round++) {
      await countAnswers(50);
      const gone = nextOfBoth('notice');
      await redis.stop();
      expect(String(await gone)).toContain('cannot be used');
      await countAnswers(50);
      const back = nextOfBoth('notice');
      redis = await startRedis(redis.port);
      expect(String(await back)).toContain('has rejoined');
    }
    isLoaded = false;
    await Promise.all(load);

    engine.accepted = Array.from({ length: 40 }, () => 0);
    const applied = nextOfBoth('action');
    for (let count = 0; count < 3; count++) await ask('attacker');
    await applied;
    expect(plain.bodies).toHaveLength(0);
    for (let count = 0; count < 2; count++) await ask('attacker');
    expect(plain.bodies).toHaveLength(2);
    expect(new Set(statuses)).toEqual(new Set([200]));

    const countJudged = async (): Promise<number> => {
      const states = guards.map(async ({ operatorUrl }) => {
        const response = await fetch(`${operatorUrl}/mistletoe/api/state`);
        return ((await response.json()) as PageState).counts.requests;
      });
      return (await Promise.all(states)).reduce((sum, count) => sum + count, 0);
    };
    while ((await countJudged()) < sent) await new Promise((resolve) => setImmediate(resolve));
    expect(await countJudged()).toBe(sent);
    for (const guard of guards) await guard.close();
    await Promise.all([engine.close(), plain.close(), redis.stop()]);
  },
);
