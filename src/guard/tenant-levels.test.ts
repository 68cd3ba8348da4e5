import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { RankTable } from './rank-table.js';
import { lowestFloor, TenantLevels } from './tenant-levels.js';

/** Tenants whose ranks have the given means, spread as widely as these allow. */
function learnAll(levels: TenantLevels, means: readonly number[], requests = 200): void {
  const random = createRandom(1, 'levels');
  for (let request = 0; request < requests; request++)
    for (const [tenant, mean] of means.entries()) {
      const rank = mean + (random.next() - 0.5) * 2 * Math.min(mean, 1 - mean);
      levels.see(`t${tenant}`, rank);
      levels.learn(`t${tenant}`, rank);
    }
}

const alike = Array.from({ length: 20 }, () => 0.5);
const unlike = Array.from({ length: 20 }, (_, index) => (index % 4 === 0 ? 0.28 : 0.58));

describe('levels of tenants', () => {
  it('say nothing before some tenants are known', () => {
    const levels = new TenantLevels(100);
    learnAll(levels, alike.slice(0, 7));
    expect(levels.floor('new')).toBeUndefined();
    learnAll(levels, alike, 30);
    expect(levels.floor('new')).toBeUndefined();
    learnAll(levels, alike);
    expect(levels.floor('new')).toBeDefined();
  });

  it('are sharp where tenants are alike, and leave newcomers alone where they differ', () => {
    const same = new TenantLevels(100);
    learnAll(same, alike);
    expect(same.floor('new')).toBeGreaterThan(0.4);
    const different = new TenantLevels(100);
    learnAll(different, unlike);
    expect(different.floor('new')).toBeLessThan(0.28);
    expect(different.floor('t0')).toBeLessThan(0.28);
    expect(different.floor('t1')).toBeGreaterThan(0.45);
  });

  it("are only sharpened by a tenant's own past", () => {
    const levels = new TenantLevels(100);
    learnAll(levels, alike);
    const newcomer = levels.floor('new')!;
    for (let request = 0; request < 1000; request++) levels.learn('new', 0.1);
    // It has moved what tenants differ by, as one of twenty-one, and no more.
    expect(levels.floor('new')).toBeGreaterThan(newcomer - 0.25);
    expect(levels.floor('new')).toBeCloseTo(levels.floor('newest')!, 9);
    levels.forget('new');
    expect(levels.floor('newest')).toBeCloseTo(newcomer, 9);
  });

  it('are bounded whatever is taught', () => {
    const levels = new TenantLevels(100);
    learnAll(levels, [...alike, ...alike.map(() => 0.01)]);
    expect(levels.floor('new')).toBe(lowestFloor);
  });

  it('go down with everybody', () => {
    const levels = new TenantLevels(100);
    learnAll(levels, alike);
    const before = levels.floor('new')!;
    for (const tenant of alike.keys()) levels.see(`t${tenant}`, 0.2);
    expect(levels.floor('new')).toBeLessThan(before - 0.1);
    for (const tenant of alike.keys()) levels.see('t0', 0.2 + tenant / 100);
    for (const tenant of alike.slice(1).keys()) levels.see(`t${tenant + 1}`, 0.5);
    expect(levels.floor('new')).toBeCloseTo(before, 9);
  });

  it('are the same after a restart', () => {
    const levels = new TenantLevels(100);
    learnAll(levels, unlike);
    const copy = new TenantLevels(100);
    copy.restore(levels.save());
    for (const tenant of ['t0', 't1', 'new']) expect(copy.floor(tenant)).toBe(levels.floor(tenant));
    expect(copy.save()).toEqual(levels.save());
  });
});

describe('ranks', () => {
  it('are one half on average, whatever the distribution and however many are equal', () => {
    const random = createRandom(2, 'ranks');
    const draw = (): number => Math.floor(10 * random.next() ** 3);
    let sum = 0;
    const rounds = 4000;
    for (let round = 0; round < rounds; round++) {
      const table = new RankTable(Array.from({ length: 20 }, () => ({ value: draw(), weight: 1 })));
      sum += table.rank(draw());
    }
    expect(Math.abs(sum / rounds - 0.5)).toBeLessThan(4 * Math.sqrt(1 / 12 / rounds));
  });

  it('weigh', () => {
    const table = new RankTable([1, 2, 3].map((value) => ({ value, weight: value })));
    expect(table.rank(0)).toBeCloseTo(0.5 / 7, 12);
    expect(table.rank(2)).toBeCloseTo(2.5 / 7, 12);
    expect(table.rank(9)).toBeCloseTo(6.5 / 7, 12);
    expect(new RankTable([]).rank(1)).toBe(0.5);
  });
});
