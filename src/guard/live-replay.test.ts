/** Live traffic through the guard, then a replay of its records: the same verdicts, record by record. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { readConfiguration } from './config-file.js';
import { startGuard } from './guard.js';
import type { Verdict } from './judge/verdict.js';
import { replayFile } from './records/replay.js';
import { startFakeEngine } from '../../test/support/guard/fake-engine.js';

it('gives the same verdicts live and in a replay', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'live-replay-'));
  const engine = await startFakeEngine();
  const plain = await startFakeEngine();
  const settings = {
    ...{ upstream: engine.url, plainUpstream: plain.url, port: 0, operator: { port: 0 } },
    ...{ timeouts: { connect: 0 }, records: { folder }, metrics: { compareEvery: 0 } },
    ...{ tenant: { from: 'header', header: 'x-tenant' }, alert: { falseAlerts: 0.05 } },
    mitigation: { action: 'plain-upstream', probeEvery: 3 },
  };
  const text = JSON.stringify(settings);
  const guard = await startGuard(readConfiguration({ file: { name: 'test', text } }));
  const random = createRandom(1, 'live');
  const send = async (tenant: string, accepted: readonly number[]): Promise<void> => {
    engine.accepted = accepted;
    const response = await fetch(`${guard.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-tenant': tenant },
      body: JSON.stringify({ model: 'm', messages: [], stream: random.next() < 0.5 }),
    });
    await response.text();
  };
  for (let index = 0; index < 60; index++) {
    const rate = 0.4 + 0.5 * random.next();
    const steps = Array.from({ length: 40 }, () => (random.next() < rate ? 1 + random.nextInteger(3) : 0));
    await send(`tenant-${index % 5}`, steps);
    if (index % 5 === 4)
      await send(
        'attacker',
        Array.from({ length: 40 }, () => 0),
      );
  }
  await guard.close();
  await Promise.all([engine.close(), plain.close()]);
  const pairs: [Verdict, Verdict | undefined][] = [];
  const replay = await replayFile(folder, {
    ...{ falseAlerts: 0.05, measures: { action: 'plain-upstream', probeEvery: 3 } },
    onJudged: (_, { verdict }, recorded) => pairs.push([verdict, recorded]),
  });
  rmSync(folder, { recursive: true });
  expect(pairs).toHaveLength(72);
  for (const [now, then] of pairs) expect(now).toEqual(then);
  expect(replay.different).toBe(0);
  expect(replay.verdicts.collapsed).toBeGreaterThanOrEqual(3);
  // Once the measure applies, the plain upstream answers.
  expect(replay.verdicts.unreadable).toBeGreaterThanOrEqual(5);
  expect(replay.verdicts.normal).toBeGreaterThan(20);
  expect(replay.actions).toMatchObject([{ change: 'applied', tenant: expect.any(String) as string }]);
});
