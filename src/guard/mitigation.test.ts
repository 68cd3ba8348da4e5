import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import type { Alarm } from './alarm.js';
import { BatchTiers, OneWayGate } from './gates.js';
import { Mitigation } from './mitigation.js';
import { Monitor } from './monitor.js';
import { createRecord, drawBenign, drawSteps, rateFor } from '../../test/support/guard/traffic.js';
import { TokenBucket } from './token-bucket.js';

const alarm = (more: Partial<Alarm> = {}): Alarm => ({
  ...{ id: 'alarm-1', model: 'm', route: '/r', atMs: 0, scope: 'tenant', cause: 'collapse', tenant: 'bad' },
  ...{ requestId: null, seen: 1.1, steps: 100, expected: { low: 1.5, middle: 2.5, high: 4 }, eValue: 1e6 },
  text: '',
  ...more,
});
const request = { tenant: 'bad', model: 'm', id: 'r' };

describe('mitigation', () => {
  it('only observes unless told otherwise', () => {
    const mitigation = new Mitigation();
    expect(mitigation.hear(alarm())).toEqual([]);
    expect(mitigation.decide('bad', 'm', 0)).toMatchObject({
      action: 'observe',
      isProbe: false,
      alarmId: null,
    });
  });

  it('takes a measure for the tenant and the model that rang, and for nobody else', () => {
    const mitigation = new Mitigation({ action: 'plain-upstream' });
    expect(mitigation.hear(alarm())).toMatchObject([{ change: 'taken', tenant: 'bad', model: 'm' }]);
    expect(mitigation.hear(alarm({ id: 'alarm-2' }))).toEqual([]); // it is in force already
    expect(mitigation.decide('bad', 'm', 1).action).toBe('plain-upstream');
    expect(mitigation.decide('bad', 'other', 1).action).toBe('observe');
    expect(mitigation.decide('good', 'm', 1).action).toBe('observe');
    expect(mitigation.hear(alarm({ cause: 'hard-text', tenant: 'poet' }))).toEqual([]);
    expect(mitigation.hear(alarm({ scope: 'request', tenant: 'once' }))).toEqual([]);
  });

  it('probes, and lifts after probes that are usual', () => {
    const mitigation = new Mitigation({ action: 'plain-upstream', probeEvery: 4, probesToLift: 2 });
    mitigation.hear(alarm());
    const changes: string[] = [];
    let requests = 0;
    while (mitigation.size > 0 && requests < 100) {
      requests += 1;
      const decision = mitigation.decide('bad', 'm', requests);
      const events = mitigation.learn(decision, request, decision.isProbe ? 'usual' : 'unknown', requests);
      changes.push(...events.map(({ change }) => change));
    }
    expect(requests).toBe(8);
    expect(changes).toEqual(['probed', 'lifted']);
    expect(mitigation.decide('bad', 'm', 9).action).toBe('observe');
    // Whoever rings again waits longer.
    mitigation.hear(alarm({ id: 'alarm-9' }));
    const until = Array.from({ length: 20 }, (_, index) => mitigation.decide('bad', 'm', 10 + index).isProbe);
    expect(until.indexOf(true)).toBe(7);
  });

  it('probes ever more rarely while probes are low, and after a quiet while', () => {
    const mitigation = new Mitigation({ action: 'plain-upstream', probeEvery: 4, longestWait: 64 });
    mitigation.hear(alarm());
    let probes = 0;
    for (let index = 0; index < 1000; index++) {
      const decision = mitigation.decide('bad', 'm', index);
      probes += Number(decision.isProbe);
      mitigation.learn(decision, request, decision.isProbe ? 'low' : 'unknown', index);
    }
    expect(probes).toBeLessThan(24);
    expect(probes).toBeGreaterThan(10);
    expect(mitigation.decide('bad', 'm', 10_000_000).isProbe).toBe(true);
  });

  it('takes every request for a probe where drafts can still be seen', () => {
    const mitigation = new Mitigation({ action: 'tag', probesToLift: 3 });
    mitigation.hear(alarm());
    const answer = (verdict: 'usual' | 'low'): boolean => {
      mitigation.learn(mitigation.decide('bad', 'm', 0), request, verdict, 0);
      return mitigation.size === 0;
    };
    expect([answer('usual'), answer('usual'), answer('low'), answer('usual'), answer('usual')]).not.toContain(
      true,
    );
    expect(answer('usual')).toBe(true);
  });

  it('limits the rate of a tenant, and says when to come again', () => {
    const mitigation = new Mitigation({ action: 'rate-limit', requestsPerMinute: 2 });
    mitigation.hear(alarm());
    const decisions = [0, 0, 0].map((atMs) => mitigation.decide('bad', 'm', atMs));
    expect(decisions.map(({ isRefused }) => isRefused)).toEqual([false, false, true]);
    expect(decisions[2]!.retryAfterMs).toBe(30_000);
    expect(mitigation.decide('bad', 'm', 30_000).isRefused).toBe(false);
    expect(mitigation.decide('good', 'm', 0).isRefused).toBe(false);
  });

  it('acts for everybody only on an alarm about everybody, and lifts by hand', () => {
    const mitigation = new Mitigation({ action: 'plain-upstream', forEveryone: 'plain-upstream' });
    mitigation.hear(alarm({ scope: 'everyone', cause: 'drafter-down', tenant: null }));
    expect(mitigation.decide('anybody', 'm', 1).action).toBe('plain-upstream');
    expect(mitigation.list()).toEqual([{ tenant: null, model: 'm', action: 'plain-upstream' }]);
    expect(mitigation.lift(null, 'm', 2)).toMatchObject([{ change: 'lifted', tenant: null }]);
    expect(mitigation.decide('anybody', 'm', 3).action).toBe('observe');
  });

  it('forgets old measures rather than growing', () => {
    const mitigation = new Mitigation({ action: 'tag', tenantLimit: 100 });
    for (let index = 0; index < 10_000; index++) mitigation.hear(alarm({ tenant: `t${index}` }));
    expect(mitigation.size).toBe(100);
  });
});

describe('one attacker among others', () => {
  /** Six tenants; one of them attacks from the 1200th request on. */
  function serve(): {
    readonly touched: Set<string>;
    readonly gates: readonly OneWayGate[];
    readonly tiers: BatchTiers;
  } {
    const random = createRandom(1, 'gates');
    const monitor = new Monitor();
    const mitigation = new Mitigation({ action: 'plain-upstream' });
    const gates = [new OneWayGate(32, 0.8), new OneWayGate(500, 0.2)];
    const tiers = new BatchTiers({ tiers: [1, 3, 5] });
    const touched = new Set<string>();
    for (let index = 0; index < 1700; index++) {
      const isAttack = index >= 1200 && random.next() < 0.7;
      const tenant = isAttack ? 'attacker' : `tenant-${random.nextInteger(5)}`;
      const decision = mitigation.decide(tenant, 'm', index * 60_000);
      if (decision.action === 'plain-upstream') touched.add(tenant);
      const kind = isAttack ? { rate: rateFor(1.05), steps: 60 } : drawBenign(random);
      const steps = drawSteps(random, kind);
      const upstream = decision.action === 'plain-upstream' ? 'plain' : 'speculative';
      const record = createRecord(steps, { id: `r${index}`, tenant, endedMs: index * 60_000, upstream });
      const { alarms, verdict } = monitor.observe(record);
      for (const rung of alarms) mitigation.hear(rung);
      mitigation.learn(decision, record, verdict, record.endedMs);
      gates[0]!.complete(1 + record.speculation!.accepted / steps.length);
      for (const accepted of steps) {
        gates[1]!.iterate(accepted, 5);
        tiers.iterate([accepted]);
      }
    }
    return { touched, gates, tiers };
  }

  it('loses speculation alone, while a one-way gate takes it from everybody for good', () => {
    const { touched, gates } = serve();
    expect([...touched]).toEqual(['attacker']);
    expect(gates.map(({ isOff }) => isOff)).toEqual([true, true]);
    for (let index = 0; index < 10_000; index++) gates[0]!.complete(4);
    expect(gates[0]!.isOff).toBe(true);
  });
});

describe('gates', () => {
  it('wait for a whole window', () => {
    const gate = new OneWayGate(3, 1);
    gate.complete(1);
    gate.complete(1);
    expect(gate.isOff).toBe(false);
    gate.complete(5);
    expect(gate.isOff).toBe(false);
    gate.complete(1);
    expect(gate.isOff).toBe(false); // (0 + 4 + 0) / 3
    gate.complete(1);
    gate.complete(1);
    expect(gate.isOff).toBe(true);
    expect(() => new OneWayGate(0, 1)).toThrow(/window of 0/);
  });

  it('shorten the drafts of a whole batch for the sake of some of it', () => {
    const tiers = new BatchTiers();
    for (let batch = 0; batch < 60; batch++) tiers.iterate([3, 3, 3, 3]);
    expect(tiers.draftLength).toBe(7);
    for (let batch = 0; batch < 60; batch++) tiers.iterate([3, 3, 2, 0]);
    expect(tiers.draftLength).toBe(3);
    for (let batch = 0; batch < 60; batch++) tiers.iterate([0, 0, 0, 0]);
    expect(tiers.draftLength).toBe(1);
  });
});

describe('a token bucket', () => {
  it('refills steadily up to its size', () => {
    const bucket = new TokenBucket(2, 1000);
    expect([bucket.take(0), bucket.take(0), bucket.take(0)]).toEqual([0, 0, 500]);
    expect(bucket.take(250)).toBe(250);
    expect(bucket.take(500)).toBe(0);
    expect([bucket.take(9000), bucket.take(9000), bucket.take(9000)]).toEqual([0, 0, 500]);
  });
});
