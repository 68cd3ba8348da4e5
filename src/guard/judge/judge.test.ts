import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import type { Observation } from '../observation.js';
import { createRecord, drawBenign, drawSteps, rateFor } from '../../../test/support/guard/traffic.js';
import { Judge } from './judge.js';
import type { ActionEvent, Alert, VerdictName } from './verdict.js';

const random = createRandom(1, 'judge');
let count = 0;
const next = (): { id: string; endedMs: number } => ({ id: `r${++count}`, endedMs: count * 1000 });
const benign = (tenant: string): Observation =>
  createRecord(drawSteps(random, drawBenign(random)), { ...next(), tenant });
const attack = (tenant: string, length = 1, steps = 43): Observation =>
  createRecord(drawSteps(random, { rate: rateFor(length), steps }), { ...next(), tenant });
const collapse = (tenant: string, steps = 43): Observation =>
  createRecord(
    Array.from({ length: steps }, () => 0),
    { ...next(), tenant },
  );
const estimated = (steps: number, accepted: number, tenant: string): Observation =>
  createRecord([], {
    ...next(),
    tenant,
    speculation: {
      ...{ evidence: 'estimated', steps, accepted, proposed: null, histogram: null },
      ...{ perStepAccepted: null, perStepProposed: null, draftLength: null, isTree: false },
    },
  });
const nameOf = (judge: Judge, observation: Observation): VerdictName => judge.judge(observation).verdict.name;

describe('the judge', () => {
  it.each([0, 50, 200])(
    'calls a collapse collapsed after %i benign requests, and acts within 3',
    (before) => {
      const judge = new Judge({ measures: { action: 'plain-upstream' } });
      for (let index = 0; index < before; index++) judge.judge(benign(`tenant-${index % 7}`));
      const actions: ActionEvent[] = [];
      for (let index = 0; index < 3; index++) {
        expect(judge.decide('attacker', 0).kind).toBe('none');
        const judgment = judge.judge(collapse('attacker', 32));
        expect(judgment.verdict.name).toBe('collapsed');
        expect(judgment.verdict.reason).toMatch(/^Drafting did not pay: 1\.00 tokens per step over 32 steps/);
        actions.push(...judgment.actions);
      }
      expect(actions).toMatchObject([{ action: 'plain-upstream', change: 'applied', tenant: 'attacker' }]);
      expect(judge.decide('attacker', 0).kind).toBe('plain-upstream');
      expect(judge.decide('tenant-1', 0).kind).toBe('none');
    },
  );

  it('says learning while the baseline is young, and never normal', () => {
    const judge = new Judge();
    const names = Array.from({ length: 99 }, () => nameOf(judge, benign('a')));
    expect(new Set(names)).toEqual(new Set(['learning']));
    expect(nameOf(judge, benign('a'))).not.toBe('learning');
  });

  it('leaves benign tenants alone over 2,000 requests, and calls about 1 % low', () => {
    const judge = new Judge({ measures: { action: 'plain-upstream' } });
    const alerts: Alert[] = [];
    const actions: ActionEvent[] = [];
    let low = 0;
    for (let index = 0; index < 2000; index++) {
      const judgment = judge.judge(benign(`tenant-${index % 9}`));
      alerts.push(...judgment.alerts);
      actions.push(...judgment.actions);
      low += Number(judgment.verdict.name === 'low');
    }
    expect(alerts).toEqual([]);
    expect(actions).toEqual([]);
    expect(low / 2000).toBeGreaterThan(0.003);
    expect(low / 2000).toBeLessThan(0.016);
  });

  it('finds short collapsed answers together that say little alone', () => {
    const judge = new Judge();
    const judgments = Array.from({ length: 6 }, () => judge.judge(collapse('attacker', 10)));
    expect(judgments.map(({ verdict }) => verdict.name)).not.toContain('collapsed');
    expect(judgments.flatMap(({ alerts }) => alerts)).toMatchObject([{ cause: 'collapsed' }]);
  });

  it('finds a mild attack by drift within 25 requests', () => {
    const judge = new Judge();
    for (let index = 0; index < 1000; index++) judge.judge(benign(`tenant-${index % 20}`));
    let alert: Alert | undefined;
    let sent = 0;
    while (alert === undefined && sent < 100) {
      for (let other = 0; other < 3; other++) judge.judge(benign(`tenant-${other}`));
      [alert] = judge.judge(attack('attacker', 1.7, 60)).alerts;
      sent += 1;
    }
    expect(alert?.tenant).toBe('attacker');
    expect(sent).toBeLessThanOrEqual(25);
  });

  it('stays as sensitive after an alert', () => {
    const judge = new Judge({ measures: { action: 'plain-upstream', probeEvery: 2, probesToLift: 1 } });
    for (let index = 0; index < 200; index++) judge.judge(benign(`tenant-${index % 7}`));
    for (let round = 0; round < 3; round++) {
      const actions = [1, 2, 3].flatMap(() => judge.judge(collapse('attacker')).actions);
      expect(actions).toMatchObject([{ change: 'applied' }]);
      const probe = { measure: 'plain-upstream', isProbe: true } as const;
      expect(judge.judge({ ...collapse('attacker'), ...probe }).actions).toEqual([]);
      // Too short to show that drafting pays again.
      expect(judge.judge({ ...collapse('attacker', 5), ...probe }).actions).toEqual([]);
      const { actions: lifted } = judge.judge({
        ...createRecord(
          Array.from({ length: 60 }, () => 3),
          next(),
        ),
        ...probe,
        tenant: 'attacker',
      });
      expect(lifted).toMatchObject([{ change: 'lifted' }]);
    }
  });

  it('judges usage-only streams in one unit: 60 of 60 at 1.0 tokens per chunk', () => {
    const judge = new Judge();
    for (let index = 0; index < 150; index++)
      judge.judge(estimated(60, Math.round(60 * (0.9 + random.next())), `tenant-${index % 7}`));
    const names = Array.from({ length: 60 }, () => nameOf(judge, estimated(60, 0, 'attacker')));
    expect(names.every((name) => name === 'collapsed' || name === 'low')).toBe(true);
  });

  it('does not take one token per chunk for a collapse where a chunk may be a token', () => {
    const judge = new Judge();
    expect(nameOf(judge, estimated(60, 0, 'a'))).toBe('unreadable');
    const derived = estimated(60, 0, 'a');
    const speculation = { ...derived.speculation!, evidence: 'derived' as const };
    expect(nameOf(judge, { ...derived, speculation })).toBe('collapsed');
  });

  it('has nothing to say about plain, failed, silent and undrafted requests', () => {
    const judge = new Judge();
    expect(nameOf(judge, { ...collapse('a'), upstream: 'plain' })).toBe('unreadable');
    expect(nameOf(judge, { ...collapse('a'), status: 500 })).toBe('unreadable');
    expect(nameOf(judge, { ...collapse('a'), speculation: null })).toBe('unreadable');
    const undrafted = { ...collapse('a').speculation!, proposed: 0, perStepProposed: null };
    expect(nameOf(judge, { ...collapse('a'), speculation: undrafted })).toBe('normal');
  });

  it('reports a drafter that is down for all tenants once, and blames no tenant for it', () => {
    const judge = new Judge({ measures: { forEveryone: 'plain-upstream' } });
    for (let index = 0; index < 300; index++) judge.judge(benign(`tenant-${index % 10}`));
    const judgments = Array.from({ length: 20 }, (_, index) => judge.judge(collapse(`tenant-${index % 10}`)));
    const down = judgments.flatMap(({ alerts }) => alerts).filter(({ cause }) => cause === 'drafter-down');
    expect(down).toMatchObject([{ tenant: null }]);
    expect(judge.decide('stranger', 0).kind).toBe('plain-upstream');
  });

  it('continues after a restart as if there had been none', () => {
    const observations = Array.from({ length: 400 }, (_, index) =>
      index % 10 === 3 ? attack('attacker', 1.05) : benign(`tenant-${index % 7}`),
    );
    const through = new Judge();
    const first = new Judge();
    const second = new Judge();
    for (const observation of observations.slice(0, 200)) {
      through.judge(observation);
      first.judge(observation);
    }
    second.restore(JSON.parse(JSON.stringify(first.save())) as ReturnType<Judge['save']>);
    for (const observation of observations.slice(200))
      expect(second.judge(observation)).toEqual(through.judge(observation));
  });
});
