import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { EveryoneTest } from './everyone-test.js';
import { RecentMap } from './recent-map.js';
import { limitEvidence, mostOfOne, TenantTest } from './tenant-test.js';
import { TrafficRate } from './traffic-rate.js';

const counts = { steps: 50, accepted: 10 };
const request = (factor: number, level?: { rank: number; floor: number }) => ({ ...counts, factor, level });

describe('the test over a tenant', () => {
  it('expects no more false alarms than requests over the threshold, over all tenants', () => {
    const random = createRandom(1, 'tenants');
    const threshold = 500;
    let alarms = 0;
    const requests = 200_000;
    const test = new TenantTest(1000);
    for (let index = 0; index < requests; index++) {
      // Mean 1 exactly, and as wild as a factor may be: 20 or nearly nothing.
      const factor = random.next() < 0.05 ? 20 : 0;
      alarms += Number(test.learn(`t${index % 7}`, request(factor), threshold) !== undefined);
    }
    expect(alarms).toBeLessThanOrEqual(requests / threshold + 3 * Math.sqrt(requests / threshold));
    expect(alarms).toBeGreaterThan(0);
  });

  it('rings after a few requests of strong evidence, and then holds the tenant for a while', () => {
    const test = new TenantTest(10);
    const factor = limitEvidence(1e9, { lowShare: 0.005 });
    expect(factor).toBeCloseTo(mostOfOne / 1.25, 9);
    const rang = Array.from({ length: 5 }, () => test.learn('bad', request(factor), 100_000));
    expect(rang.findIndex((alarm) => alarm !== undefined)).toBe(3);
    expect(rang[3]).toMatchObject({ requests: 4, steps: 200, accepted: 40 });
    expect(test.isHeld('bad')).toBe(true);
    expect(test.isHeld('good')).toBe(false);
    for (let index = 0; index < 40; index++) test.learn('bad', request(0.5), 100_000);
    expect(test.isHeld('bad')).toBe(false);
  });

  it('keeps the same promise for levels, of which none lies below its floor', () => {
    const random = createRandom(2, 'levels');
    const [threshold, requests] = [200, 100_000];
    const test = new TenantTest(100);
    let alarms = 0;
    for (let index = 0; index < requests; index++) {
      // At the floor exactly, with the widest spread that ranks can have.
      const level = { rank: Number(random.next() < 0.45), floor: 0.45 };
      alarms += Number(test.learn(`t${index % 20}`, request(0, level), threshold) !== undefined);
    }
    expect(alarms).toBeLessThanOrEqual(requests / threshold);
    expect(alarms).toBeGreaterThan(0);
  });

  it('rings on a level far below the floor, and says how low it was', () => {
    const random = createRandom(3, 'levels');
    const test = new TenantTest(100);
    const learn = (mean: number): ReturnType<TenantTest['learn']> =>
      test.learn('t', request(0.7, { rank: 2 * mean * random.next(), floor: 0.45 }), 20_000);
    for (let index = 0; index < 500; index++) expect(learn(0.5)).toBeUndefined();
    const rang = Array.from({ length: 60 }, () => learn(0.25)).filter((alarm) => alarm !== undefined);
    expect(rang.length).toBeGreaterThan(0);
    expect(rang[0]!.meanRank).toBeGreaterThan(0.15);
    expect(rang[0]!.meanRank).toBeLessThan(0.35);
  });

  it('says ever more rarely that a tenant asks for hard text', () => {
    const test = new TenantTest(100);
    const rangAt: number[] = [];
    for (let index = 0; index < 3000; index++) {
      const alarm = test.learn('t', request(0.5, { rank: index % 2 === 0 ? 0.1 : 0.3, floor: 0.45 }), 20_000);
      if (alarm === undefined) continue;
      expect(alarm.meanRank).toBeCloseTo(0.2, 1);
      test.acquit('t');
      rangAt.push(index);
    }
    expect(rangAt.length).toBeGreaterThan(3);
    expect(rangAt.length).toBeLessThan(8);
    expect(test.hasLowLevel('t')).toBe(true);
    for (let index = 0; index < 7000; index++)
      test.learn('t', request(0.5, { rank: 0.6, floor: 0.45 }), 20_000);
    expect(test.hasLowLevel('t')).toBe(false);
    // A collapse is nothing to be silent about.
    test.acquit('t');
    const collapse = Array.from({ length: 6 }, () => test.learn('t', request(40), 20_000));
    expect(collapse.some((alarm) => alarm !== undefined)).toBe(true);
  });

  it('has room for so many tenants and no more', () => {
    const test = new TenantTest(1000);
    for (let index = 0; index < 100_000; index++) test.learn(`tenant-${index}`, request(1), 1e9);
    expect(test.size).toBe(1000);
    expect(test.save().at(-1)?.[0]).toBe('tenant-99999');
    const copy = new TenantTest(1000);
    copy.restore(test.save());
    expect(copy.save()).toEqual(test.save());
  });
});

describe('the traffic of a week', () => {
  it('is what a steady stream brings, once some of it was seen', () => {
    const rate = new TrafficRate(100);
    rate.count(0);
    expect(rate.perWeek).toBe(100);
    for (let minute = 1; minute <= 3 * 7 * 1440; minute++) rate.count(minute * 60_000);
    expect(rate.perWeek).toBeGreaterThan(9900);
    expect(rate.perWeek).toBeLessThan(10_200);
    const copy = new TrafficRate(100);
    copy.restore(rate.save());
    expect(copy.perWeek).toBe(rate.perWeek);
  });
});

describe('the test over everybody', () => {
  const low = { factor: 40, evidence: 1000, ...counts };
  const usual = { factor: 0.5, evidence: 0.5, ...counts };

  it('needs half of the tenants, however strong one of them is', () => {
    const test = new EveryoneTest();
    for (let index = 0; index < 10; index++) test.learn('m', `good-${index}`, usual, 1e6);
    const alone = Array.from({ length: 100 }, () => test.learn('m', 'bad', low, 1e6));
    expect(alone.every((alarm) => alarm === undefined)).toBe(true);
    const all = Array.from({ length: 10 }, (_, index) => test.learn('m', `good-${index}`, low, 1e6));
    expect(all.find((alarm) => alarm !== undefined)).toMatchObject({ tenants: 11 });
    expect(test.isWide('other')).toBe(false);
  });

  it('goes by requests where all come under one name', () => {
    const test = new EveryoneTest();
    const alarms = Array.from({ length: 40 }, () => test.learn('m', 'all', low, 1e6));
    expect(alarms.findIndex((alarm) => alarm !== undefined)).toBe(31);
    expect(test.shareLow('m')).toBe(1);
  });
});

describe('a map that forgets', () => {
  it('forgets what was not asked for longest', () => {
    const map = new RecentMap<number>(3);
    for (const key of ['a', 'b', 'c']) map.set(key, 1);
    map.get('a');
    map.peek('b');
    map.set('d', 1);
    expect([...map.entries()].map(([key]) => key)).toEqual(['c', 'a', 'd']);
    map.delete('c');
    for (const key of ['e', 'f', 'a', 'g']) map.set(key, 2);
    expect([...map.entries()].map(([key]) => key)).toEqual(['f', 'a', 'g']);
    expect(map.getOrCreate('a', () => 9)).toBe(2);
    expect(() => new RecentMap(0)).toThrow(/limit of a table is 0/);
  });
});
