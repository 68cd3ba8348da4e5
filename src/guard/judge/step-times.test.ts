import { describe, expect, it } from 'vitest';
import { createRecord } from '../../../test/support/guard/traffic.js';
import type { Observation } from '../observation.js';
import { Judge } from './judge.js';

let count = 0;
const collapse = Array.from({ length: 32 }, () => 0);
const timed = (tenant: string, stepMs: number, more: Partial<Observation> = {}): Observation => {
  const record = createRecord(collapse, { id: `r${++count}`, tenant, ...more });
  return { ...record, speculation: { ...record.speculation!, stepMs } };
};
/** Without drafts, on the same engine. */
const plain = (tenant: string, stepMs: number): Observation => {
  const record = timed(tenant, stepMs);
  const speculation = { ...record.speculation!, proposed: 0, perStepProposed: null, accepted: 0 };
  return { ...record, speculation };
};
const learn = (judge: Judge, tenants: number, toRecord: (tenant: string) => Observation): void => {
  for (let index = 0; index < 5 * tenants; index++) judge.judge(toRecord(`tenant-${index % tenants}`));
};
const breakEvenOf = (judge: Judge): readonly unknown[] => {
  const { numbers } = judge.judge(createRecord(collapse, { id: 'last', tenant: 'last' })).verdict;
  return [numbers.breakEven, numbers.breakEvenFrom];
};
const byDefault = [1.25, 'default'];

describe('the break-even point', () => {
  it('comes from the timings of three tenants and more, with the config before it', () => {
    const judge = new Judge();
    learn(judge, 3, (tenant) => timed(tenant, 14));
    expect(breakEvenOf(judge)).toEqual(byDefault);
    learn(judge, 3, (tenant) => plain(tenant, 10));
    expect(breakEvenOf(judge)).toEqual([1.4, 'timings']);
    const restored = new Judge();
    restored.restore(structuredClone(judge.save()));
    expect(breakEvenOf(restored)).toEqual([1.4, 'timings']);
    const configured = new Judge({ breakEven: 1.7 });
    configured.restore(judge.save());
    expect(breakEvenOf(configured)).toEqual([1.7, 'config']);
  });

  it('learns plain steps from the plain upstream too', () => {
    const judge = new Judge();
    learn(judge, 4, (tenant) => timed(tenant, 13));
    learn(judge, 4, (tenant) => ({ ...plain(tenant, 10), upstream: 'plain' }));
    expect(breakEvenOf(judge)).toEqual([1.3, 'timings']);
  });

  it('does not move for one tenant, whatever its times', () => {
    const alone = new Judge();
    for (let index = 0; index < 50; index++) {
      alone.judge(timed('attacker', 20));
      alone.judge(plain('attacker', 10));
    }
    expect(breakEvenOf(alone)).toEqual(byDefault);
    for (const [draftedMs, plainMs] of [
      [1, 1000],
      [1000, 1],
    ] as const) {
      const judge = new Judge();
      learn(judge, 3, (tenant) => timed(tenant, 14));
      learn(judge, 3, (tenant) => plain(tenant, 10));
      for (let index = 0; index < 200; index++) {
        judge.judge(timed('attacker', draftedMs));
        judge.judge(plain('attacker', plainMs));
      }
      expect(breakEvenOf(judge)).toEqual([1.4, 'timings']);
    }
  });

  it('stays between 1.05 and 2, and ignores short requests and those that drafted in some steps', () => {
    const judge = new Judge();
    learn(judge, 3, (tenant) => timed(tenant, 90));
    learn(judge, 3, (tenant) => plain(tenant, 10));
    expect(breakEvenOf(judge)).toEqual([2, 'timings']);
    const other = new Judge();
    learn(other, 3, (tenant) => plain(tenant, 10));
    learn(other, 3, (tenant) => {
      const record = timed(tenant, 14);
      return { ...record, speculation: { ...record.speculation!, proposed: 4, perStepProposed: null } };
    });
    learn(other, 3, (tenant) => {
      const record = timed(tenant, 14);
      return { ...record, speculation: { ...record.speculation!, steps: 7 } };
    });
    expect(breakEvenOf(other)).toEqual(byDefault);
  });
});
