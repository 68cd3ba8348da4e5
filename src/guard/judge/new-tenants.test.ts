import { describe, expect, it } from 'vitest';
import { createRecord, drawSteps } from '../../../test/support/guard/traffic.js';
import { createRandom } from '../../core/random.js';
import { Judge } from './judge.js';

const random = createRandom(3, 'new tenants');
let count = 0;
const ask = (judge: Judge, tenant: string, rate: number) => {
  const own = rate + 0.4 * (random.next() - 0.5);
  const id = `r${++count}`;
  return judge.judge(
    createRecord(drawSteps(random, { rate: own, steps: 40 }), { id, tenant, endedMs: count * 60_000 }),
  );
};
/** Tenants differ: each asks for text of its own difficulty. */
const rateOf = (tenant: number): number => 0.5 + 0.01 * (tenant % 25);
const teach = (tenants: number, requests: number): ReturnType<Judge['save']> => {
  const judge = new Judge();
  for (let index = 0; index < requests; index++) {
    const tenant = random.nextInteger(tenants);
    expect(ask(judge, `tenant-${tenant}`, rateOf(tenant)).alerts).toEqual([]);
  }
  return judge.save();
};
const requestsUntilAlert = (saved: ReturnType<Judge['save']>, rate: number): number | undefined => {
  const judge = new Judge();
  judge.restore(saved);
  for (let sent = 1; sent <= 50; sent++) {
    const other = random.nextInteger(10);
    ask(judge, `tenant-${other}`, rateOf(other));
    const alert = ask(judge, 'new', rate).alerts.find(({ text }) => text.includes('new tenant'));
    if (alert === undefined) continue;
    expect(alert.probability).toBeLessThanOrEqual(alert.threshold);
    return sent;
  }
  return undefined;
};

describe('a new tenant among tenants that differ', () => {
  const saved = teach(25, 2500);

  it('is found within 25 requests if it is lower than all known ones', () => {
    const found = Array.from({ length: 5 }, () => requestsUntilAlert(saved, 0.36));
    for (const requests of found) expect(requests).toBeLessThanOrEqual(25);
  });

  it('raises no more false alerts than the comparison costs', () => {
    const alerts = Array.from({ length: 25 }, (_, tenant) => requestsUntilAlert(saved, rateOf(tenant)));
    expect(alerts.filter((requests) => requests !== undefined).length / 25).toBeLessThanOrEqual(1 / 25);
  });

  it('is not compared with few known tenants, nor when the false alerts are spent', () => {
    expect(requestsUntilAlert(teach(12, 1000), 0.36)).toBeUndefined();
    const spent = structuredClone(saved);
    Object.assign(spent.tenants.newTenants, { allowed: 0.01 });
    expect(requestsUntilAlert(spent, 0.36)).toBeUndefined();
  });
});
