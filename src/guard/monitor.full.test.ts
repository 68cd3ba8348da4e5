import { describe, expect, it } from 'vitest';
import type { Random } from '../core/random.js';
import { createRandom } from '../core/random.js';
import type { Alarm } from './alarm.js';
import { Monitor } from './monitor.js';
import type { RequestRecord } from './request-record.js';
import {
  createRecord,
  draftLength,
  drawBenign,
  drawSteps,
  rateFor,
} from '../../test/support/guard/traffic.js';

const stream = { model: 'm', route: '/v1/chat/completions' };
const secondsApart = 60;

/** A monitor with traffic behind it: 20 tenants, a request a minute. */
class World {
  readonly random: Random;
  nowMs = 0;
  private served = 0;

  constructor(
    readonly monitor: Monitor,
    seed = 1,
  ) {
    this.random = createRandom(seed, 'world');
  }

  record(steps: readonly number[], more: Partial<RequestRecord> = {}): RequestRecord {
    this.served += 1;
    this.nowMs += 1000 * secondsApart;
    const tenant = `tenant-${this.random.nextInteger(20)}`;
    return createRecord(steps, { id: `r${this.served}`, endedMs: this.nowMs, tenant, ...more });
  }

  benign(more: Partial<RequestRecord> = {}): RequestRecord {
    return this.record(drawSteps(this.random, drawBenign(this.random)), more);
  }

  low(mean: number, more: Partial<RequestRecord> = {}, steps = 80): RequestRecord {
    return this.record(drawSteps(this.random, { rate: rateFor(mean), steps }), more);
  }

  learn(count: number): this {
    for (let index = 0; index < count; index++) this.monitor.observe(this.benign());
    return this;
  }
}

const rings = (alarms: readonly Alarm[], scope: Alarm['scope']): boolean =>
  alarms.some((alarm) => alarm.scope === scope);

/** Three standard deviations above what a share of so many would be. */
const bound = (share: number, count: number): number => share + 3 * Math.sqrt((share * (1 - share)) / count);

describe('the monitor on benign traffic', () => {
  it.each([0.01, 0.05])(
    'rings for no more than %s of requests, at whatever step one looks',
    (falseAlarms) => {
      for (const seed of [1, 2]) {
        const world = new World(new Monitor({ falseAlarms }), seed).learn(500);
        const count = 2000;
        let rang = 0;
        for (let index = 0; index < count; index++) {
          // Watched step by step: the request rings if it does at any step at all.
          const record = world.benign();
          const watch = world.monitor.begin(stream, record.tenant, record.id);
          const steps = record.speculation!.perStepAccepted!;
          const found = steps.filter(
            (accepted) => watch.step(accepted, draftLength, record.endedMs) !== undefined,
          );
          const { alarms } = watch.finish(record);
          rang += Number(found.length > 0 || rings(alarms, 'request'));
        }
        expect(rang / count).toBeLessThan(bound(falseAlarms, count));
      }
    },
  );

  it('keeps the rate over a long time: what it does not learn from does not raise its floors', () => {
    const world = new World(new Monitor({ falseAlarms: 0.05 }), 3).learn(5000);
    let rang = 0;
    for (let index = 0; index < 2000; index++)
      rang += Number(rings(world.monitor.observe(world.benign()).alarms, 'request'));
    expect(rang / 2000).toBeLessThan(bound(0.05, 2000));
  });

  it('rings for no more while it is young', () => {
    let rang = 0;
    for (let seed = 0; seed < 8; seed++) {
      const world = new World(new Monitor(), 100 + seed);
      for (let index = 0; index < 400; index++)
        rang += Number(rings(world.monitor.observe(world.benign()).alarms, 'request'));
    }
    expect(rang / 3200).toBeLessThan(bound(0.01, 3200));
  });

  it('follows a slow drift without ringing more', () => {
    const world = new World(new Monitor({ falseAlarms: 0.02 }), 4).learn(1000);
    const before = world.monitor.snapshot().streams[0]!.baseline!;
    let rang = 0;
    const count = 5000;
    for (let index = 0; index < count; index++) {
      const { rate, steps } = drawBenign(world.random);
      const record = world.record(
        drawSteps(world.random, { rate: rate * (1 - (0.3 * index) / count), steps }),
      );
      rang += Number(rings(world.monitor.observe(record).alarms, 'request'));
    }
    expect(rang / count).toBeLessThan(bound(0.02, count));
    expect(world.monitor.snapshot().streams[0]!.baseline!.middle).toBeLessThan(before.middle - 0.4);
  });

  it('rings about tenants or everybody less than once in the requests it was given for a week', () => {
    const monitor = new Monitor({ falseAlarmsPerWeek: 5, leastRequestsPerWeek: 1000 });
    const world = new World(monitor, 5).learn(500);
    let alarms = 0;
    for (let index = 0; index < 4000; index++)
      alarms += world.monitor
        .observe(world.benign())
        .alarms.filter(({ scope }) => scope !== 'request').length;
    // 10,080 requests a week at one a minute.
    expect(alarms).toBeLessThanOrEqual(5);
  });
});

describe('the monitor under attack', () => {
  it('finds a collapse from 2.5 to 1.1 within some tens of steps', () => {
    const { monitor, random } = new World(new Monitor(), 6).learn(1500);
    const found = Array.from({ length: 100 }, (_, index) => {
      const watch = monitor.begin(stream, 'attacker', `a${index}`);
      const steps = drawSteps(random, { rate: rateFor(1.1), steps: 120 });
      return steps.findIndex((accepted) => watch.step(accepted, draftLength, 0) !== undefined);
    });
    expect(found.filter((step) => step >= 0 && step < 80).length).toBeGreaterThan(85);
  });

  it('says what was seen, what was expected and how sure it is', () => {
    const world = new World(new Monitor(), 7).learn(1500);
    const { alarms, verdict } = world.monitor.observe(world.low(1.05, { tenant: 'attacker' }));
    expect(verdict).toBe('low');
    const [alarm] = alarms;
    expect(alarm).toMatchObject({ scope: 'request', cause: 'collapse', tenant: 'attacker', ...stream });
    expect(alarm!.seen).toBeLessThan(1.2);
    expect(alarm!.expected.low).toBeGreaterThan(1.3);
    expect(alarm!.text).toMatch(
      /^A request accepted 1\.\d\d tokens a step over \d+ steps, where .* at most one benign request in 125 does this; .*\.$/,
    );
  });

  it('gives the same alarms stepping and observing, and in a second run', () => {
    const observed = new World(new Monitor(), 8).learn(800);
    const stepped = new World(new Monitor(), 8).learn(800);
    for (let index = 0; index < 60; index++) {
      const record = index % 3 === 0 ? observed.low(1.1, { tenant: 'attacker' }) : observed.benign();
      const twin = index % 3 === 0 ? stepped.low(1.1, { tenant: 'attacker' }) : stepped.benign();
      expect(twin).toEqual(record);
      const watch = stepped.monitor.begin(stream, twin.tenant, twin.id, { promptTokens: 100 });
      const early = twin.speculation!.perStepAccepted!.flatMap(
        (accepted) => watch.step(accepted, draftLength, twin.endedMs) ?? [],
      );
      const finished = watch.finish(twin);
      expect({ ...finished, alarms: [...early, ...finished.alarms] }).toEqual(
        observed.monitor.observe(record),
      );
    }
    expect(stepped.monitor.save()).toEqual(observed.monitor.save());
  });

  it('is not taught by an attack on 30 % of the traffic', () => {
    const world = new World(new Monitor(), 9).learn(1500);
    const clean = new World(new Monitor(), 9).learn(1500);
    let missed = 0;
    let attacks = 0;
    let rang = 0;
    for (let index = 0; index < 2500; index++) {
      if (world.random.next() < 0.3) {
        // Several attackers, answers of many lengths, some too short to ring.
        const tenant = `attacker-${index % 5}`;
        const record = world.low(1.1, { tenant }, 16 + world.random.nextInteger(150));
        missed += Number(world.monitor.observe(record).verdict !== 'low');
        attacks += 1;
      } else rang += Number(rings(world.monitor.observe(world.benign()).alarms, 'request'));
    }
    const { streams } = world.monitor.snapshot();
    const expected = clean.monitor.snapshot().streams[0]!.baseline!;
    expect(streams[0]!.baseline!.middle).toBeCloseTo(expected.middle, 0);
    expect(streams[0]!.baseline!.low).toBeGreaterThan(1.4);
    expect(missed / attacks).toBeLessThan(0.45);
    expect(rang / 1750).toBeLessThan(bound(0.01, 1750));
    const late = Array.from(
      { length: 100 },
      () => world.monitor.observe(world.low(1.1, { tenant: 'new' }, 200)).verdict,
    );
    expect(late.filter((verdict) => verdict === 'low').length).toBeGreaterThan(90);
  });

  it('is not taught by one that comes under a new name each time, either', () => {
    const world = new World(new Monitor(), 18).learn(1500);
    const before = world.monitor.snapshot().streams[0]!.baseline!;
    for (let index = 0; index < 2500; index++) {
      const isAttack = world.random.next() < 0.3;
      const length = 16 + world.random.nextInteger(150);
      world.monitor.observe(isAttack ? world.low(1.1, { tenant: `new-${index}` }, length) : world.benign());
    }
    expect(world.monitor.snapshot().streams[0]!.baseline!.low).toBeGreaterThan(before.low - 0.1);
    const late = Array.from(
      { length: 100 },
      (_, index) => world.monitor.observe(world.low(1.1, { tenant: `newest-${index}` }, 200)).verdict,
    );
    expect(late.filter((verdict) => verdict === 'low').length).toBeGreaterThan(90);
  });

  it('believes the engine where an estimate rang before', () => {
    const world = new World(new Monitor(), 19).learn(1000);
    const estimated = (record: RequestRecord): RequestRecord => ({
      ...record,
      speculation: { ...record.speculation!, evidence: 'estimated' },
    });
    for (let index = 0; index < 1000; index++) world.monitor.observe(estimated(world.benign()));
    const record = world.record(drawSteps(world.random, { rate: 0.7, steps: 80 }));
    const watch = world.monitor.begin(stream, record.tenant, record.id, { evidence: 'estimated' });
    const alarms = Array.from({ length: 60 }, () => watch.step(0, null, record.endedMs)).filter(
      (alarm) => alarm !== undefined,
    );
    expect(alarms).toHaveLength(1);
    expect(watch.finish(record)).toEqual({ alarms: [], verdict: 'usual' });
  });

  it('rings about a tenant whose requests are each too little to ring', () => {
    const world = new World(new Monitor(), 10).learn(1500);
    let requests = 0;
    let alarms: readonly Alarm[] = [];
    while (!rings(alarms, 'tenant') && requests < 100) {
      alarms = world.monitor.observe(world.low(1.1, { tenant: 'attacker' }, 40)).alarms;
      requests += 1;
      for (let index = 0; index < 5; index++) world.monitor.observe(world.benign());
    }
    expect(requests).toBeLessThan(40);
    expect(alarms.find(({ scope }) => scope === 'tenant')).toMatchObject({
      tenant: 'attacker',
      requestId: null,
    });
  });

  it('rings about a tenant whose requests are each as benign ones may be, but all of them low', () => {
    const world = new World(new Monitor(), 20).learn(2500);
    const alarms: Alarm[] = [];
    for (let index = 0; index < 120 && !rings(alarms, 'tenant'); index++) {
      alarms.push(...world.monitor.observe(world.low(1.65, { tenant: 'attacker' }, 60)).alarms);
      for (let other = 0; other < 4; other++) world.monitor.observe(world.benign());
    }
    expect(alarms.find(({ scope }) => scope === 'tenant')).toMatchObject({
      ...{ tenant: 'attacker', cause: 'hard-text' },
      text: expect.stringMatching(/above \d+ % of benign requests on average, where \d+ % or more/) as string,
    });
  });

  it('leaves tenants alone that were always low, and rings when one that was not becomes like them', () => {
    const world = new World(new Monitor(), 21);
    // Four of twenty ask for nothing but prose.
    const draw = (tenant: number, isProse: boolean): RequestRecord =>
      isProse ? world.low(1.7, { tenant: `t${tenant}` }) : world.benign({ tenant: `t${tenant}` });
    const alarms: Alarm[] = [];
    const serve = (count: number, isProse: (tenant: number) => boolean): void => {
      for (let index = 0; index < count; index++) {
        const tenant = world.random.nextInteger(20);
        alarms.push(...world.monitor.observe(draw(tenant, isProse(tenant))).alarms);
      }
    };
    serve(4000, (tenant) => tenant < 4);
    expect(rings(alarms, 'tenant')).toBe(false);
    serve(2000, (tenant) => tenant < 5);
    const accused = new Set(alarms.flatMap(({ scope, tenant }) => (scope === 'tenant' ? [tenant] : [])));
    expect([...accused]).toEqual(['t4']);
  });

  it('keeps the rate for a tenant with a hard question of its own, and a collapse of it rings', () => {
    const world = new World(new Monitor(), 22).learn(1500);
    let rang = 0;
    const count = 600;
    for (let index = 0; index < count; index++) {
      const tenant = { tenant: 'hard' };
      const record = index % 6 === 0 ? world.low(1.22, tenant, 60) : world.benign(tenant);
      rang += Number(rings(world.monitor.observe(record).alarms, 'request'));
      for (let other = 0; other < 3; other++) world.monitor.observe(world.benign());
    }
    expect(rang).toBeGreaterThan(2);
    expect(rang / count).toBeLessThan(0.03);
    expect(world.monitor.observe(world.low(1.01, { tenant: 'hard' }, 120)).verdict).toBe('low');
  });

  it('tells a drafter that died from one tenant that attacks', () => {
    const attacked = new World(new Monitor(), 11).learn(1500);
    const scopes = new Set<string>();
    for (let index = 0; index < 100; index++) {
      const record = index % 2 === 0 ? attacked.low(1.02, { tenant: 'attacker' }) : attacked.benign();
      for (const { scope } of attacked.monitor.observe(record).alarms) scopes.add(scope);
    }
    expect([...scopes].sort()).toEqual(['request', 'tenant']);

    const dead = new World(new Monitor(), 12).learn(1500);
    const alarms = Array.from({ length: 100 }, () => dead.monitor.observe(dead.low(1.01)).alarms).flat();
    expect(alarms.find(({ scope }) => scope === 'everyone')).toMatchObject({
      cause: 'drafter-down',
      tenant: null,
    });
    expect(alarms.at(-1)!.cause).toBe('drafter-down');
    expect(dead.monitor.snapshot().shareLow.m).toBeGreaterThan(0.8);
  });

  it('takes an unlikely end of the prompt for a reason, and for no more than that', () => {
    const world = new World(new Monitor(), 23);
    const tail = (surprisal: number): Partial<RequestRecord> => ({
      promptTail: { tokens: 32, surprisal: surprisal + world.random.next() },
    });
    for (let index = 0; index < 1500; index++) world.monitor.observe(world.benign(tail(2)));
    const unlikely = Array.from({ length: 100 }, () => world.monitor.observe(world.benign(tail(11))).verdict);
    expect(unlikely.filter((verdict) => verdict === 'low').length).toBeLessThan(5);
    const low = (more: Partial<RequestRecord>, tenant: string): Alarm | undefined =>
      world.monitor.observe(world.low(1.2, { ...more, tenant }, 150)).alarms[0];
    expect(low(tail(2), 'one')).toMatchObject({ cause: 'hard-text' });
    const alarm = low(tail(11), 'two');
    expect(alarm?.cause).toBe('collapse');
    expect(alarm?.text).toMatch(/text that the model finds unlikely, 11\.\d nats a token where nearly all/);
  });

  it('calls loops repetition, and does not learn from them', () => {
    const world = new World(new Monitor(), 13).learn(1500);
    const { alarms, verdict } = world.monitor.observe(
      world.record(Array.from({ length: 400 }, () => draftLength)),
    );
    expect(verdict).toBe('high');
    expect(alarms[0]).toMatchObject({ cause: 'repetition', seen: 1 + draftLength });
  });
});

describe('the monitor as a thing with a lifetime', () => {
  it('knows nothing of requests without speculation, short ones and plain ones', () => {
    const world = new World(new Monitor(), 14).learn(1000);
    const verdict = (more: Partial<RequestRecord>): string =>
      world.monitor.observe(world.low(1, more)).verdict;
    expect(verdict({ speculation: null })).toBe('unknown');
    expect(verdict({ upstream: 'plain' })).toBe('unknown');
    expect(world.monitor.observe(world.low(1, {}, 10)).verdict).toBe('unknown');
    expect(verdict({ model: 'never-seen' })).toBe('unknown');
  });

  it('judges totals alone and estimates by their own kind', () => {
    const world = new World(new Monitor(), 15);
    const strip = (record: RequestRecord): RequestRecord => ({
      ...record,
      speculation: { ...record.speculation!, histogram: null, perStepAccepted: null, perStepProposed: null },
    });
    for (let index = 0; index < 1500; index++) world.monitor.observe(strip(world.benign()));
    expect(world.monitor.observe(strip(world.low(1.02, {}, 400))).verdict).toBe('low');
    expect(world.monitor.observe(world.low(1.02)).verdict).toBe('unknown');
  });

  it('goes on after a restart as if there had been none', () => {
    const world = new World(new Monitor(), 16).learn(1200);
    world.monitor.observe(world.low(1.02, { tenant: 'attacker' }));
    for (let index = 0; index < 20; index++) world.monitor.observe(world.benign({ tenant: 'late' }));
    const copy = new Monitor();
    copy.restore(JSON.parse(JSON.stringify(world.monitor.save())));
    const record = world.low(1.1, { tenant: 'attacker' });
    expect(copy.observe(record)).toEqual(world.monitor.observe(record));
    expect(() => {
      copy.restore({ version: 3 });
    }).toThrow(/not usable/);
    expect(() => {
      copy.restore('x');
    }).toThrow(/Remove|not usable/);
  });

  it('stays small however many tenants there are', () => {
    const monitor = new Monitor({ tenantLimit: 1000 });
    const world = new World(monitor, 17).learn(300);
    const steps = drawSteps(world.random, { rate: 0.5, steps: 16 });
    for (let index = 0; index < 5000; index++)
      monitor.observe(world.record(steps, { tenant: `tenant-${index}-of-many` }));
    expect(monitor.snapshot().tenants).toBe(1000);
    expect(JSON.stringify(monitor.save()).length).toBeLessThan(4_000_000);
  });

  it('refuses rates that are none', () => {
    expect(() => new Monitor({ falseAlarms: 0 })).toThrow(/share of benign requests/);
    expect(() => new Monitor({ falseAlarmsPerWeek: -1 })).toThrow(/alarms a week/);
  });
});
