import { describe, expect, it } from 'vitest';
import type { UnitName } from '../../audit/units/audit-unit.js';
import type { TracePoint } from '../../audit/result.js';
import { createAuditProgress } from './audit-progress.js';
import type { ProgressMode } from '../progress.js';
import { createProgress, roughDuration } from '../progress.js';
import { createOutput } from '../terminal.js';

const unit = (prompt: string, arm: string): UnitName => ({ drafter: 'eagle3', prompt, arm });
const units = [unit('code-1', 'clean'), unit('code-1', 'attack'), unit('code-2', 'clean'), unit('code-2', 'attack')]; // prettier-ignore
const plan = {
  ...{ target: 'llama', drafters: ['eagle3', 'sps'], preset: 'standard', folder: 'runs/llama-1', units: 4 },
  expectedMs: 240_000 as number | null,
};
const point = (step: number, more: Partial<TracePoint> = {}): TracePoint => ({
  ...{ step, degradation: 1, divergence: 0.0314, acceptedLength: 2.125, cosineBefore: 0 },
  ...{ cosineAfter: 0, candidates: 8, vetoed: 0, ...more },
});

function listen(mode: ProgressMode, columns?: number) {
  let written = '';
  let time = 0;
  const stream = createOutput({
    isTerminal: columns !== undefined,
    columns: () => columns,
    write: (text) => {
      written += text;
    },
  });
  const now = (): number => time;
  const progress = createProgress(mode, stream, now);
  return {
    events: createAuditProgress(progress, now) as Required<ReturnType<typeof createAuditProgress>>, // prettier-ignore
    pass: (milliseconds: number) => {
      time += milliseconds;
    },
    take: (): string => {
      const text = written;
      written = '';
      return text;
    },
    finish: () => {
      progress.finish();
    },
  };
}

describe('the first line', () => {
  it('says target, drafters, preset, run folder and how long it will take', () => {
    const { events, take } = listen('plain');
    events.onPlan(plan);
    expect(take()).toBe(
      'audit: target llama, drafters eagle3, sps, preset standard, run folder runs/llama-1, about 4 min\n',
    );
    events.onPlan({ ...plan, drafters: ['sps'], expectedMs: null });
    expect(take()).toBe(
      'audit: target llama, drafter sps, preset standard, run folder runs/llama-1, time not known yet\n',
    );
  });

  it('is data for a program', () => {
    const { events, take } = listen('json');
    events.onPlan(plan);
    expect(JSON.parse(take())).toMatchObject({ event: 'note', ...plan });
  });
});

describe('events of an audit', () => {
  it('reach a program as numbers, and as texts only where they are names', () => {
    const { events, pass, take } = listen('json');
    const last = (): object => JSON.parse(take().trimEnd().split('\n').at(-1)!) as object;
    events.onStart(units);
    const named = { event: 'progress-update', label: 'audit', total: 4, drafter: 'eagle3', prompt: 'code-1' };
    events.onUnitStart(units[0]!, 0, 4);
    expect(last()).toEqual({ ...named, arm: 'clean', done: 0 });
    pass(10);
    events.onUnitEnd(units[0]!, 3.0625);
    expect(last()).toEqual({ ...named, arm: 'clean', done: 1, accepted: 3.0625 });
    events.onUnitStart(units[1]!, 1, 4);
    pass(20);
    events.onStep(units[1]!, point(1), 10);
    const step = { ...named, arm: 'attack', done: 1, step: 1, steps: 10, divergence: 0.0314 };
    expect(last()).toEqual({ ...step, accepted: 2.125, leftMs: 390 });
    events.onStep(units[1]!, point(2, { acceptedLength: null }), 10);
    expect(last()).toEqual({ ...step, step: 2, leftMs: 222 });
    events.onUnitEnd(units[1]!, undefined);
    expect(last()).toEqual({ ...named, arm: 'attack', done: 2, leftMs: 30 });
  });

  it('show the time left first, within the first search, and it runs down', () => {
    const { events, pass, take, finish } = listen('bar', 60);
    events.onStart(units);
    events.onUnitStart(units[1]!, 1, 4);
    pass(20_000);
    events.onStep(units[1]!, point(1), 10);
    finish();
    const seen = take();
    expect(seen).toContain('1/4  left 7 min');
    expect(seen).not.toContain('KL');
  });

  it('have the whole story where there is room', () => {
    const { events, take, finish } = listen('bar', 200);
    events.onPlan({ ...plan, expectedMs: 100_000 });
    events.onStart(units);
    events.onUnitStart(units[1]!, 1, 4);
    events.onStep(units[1]!, point(1), 10);
    finish();
    expect(take()).toContain(
      '1/4  left 0 s  drafter eagle3  prompt code-1  arm attack  step 1/10  accepted 2.13  KL 0.031',
    );
  });

  it('fall back on what was expected before anything is timed', () => {
    const { events, take } = listen('json');
    events.onPlan(plan);
    events.onStart(units);
    events.onUnitStart(units[0]!, 0, 4);
    expect(take()).toContain('"leftMs":240000');
  });

  it('show every worker, with its steps', () => {
    const { events, pass, take, finish } = listen('bar', 200);
    events.onStart(units);
    events.onUnitStart(units[1]!, 0, 4, { name: 'a', pid: 7 });
    events.onUnitStart(units[3]!, 0, 4, { name: 'b', pid: null });
    pass(20_000);
    events.onStep(units[1]!, point(1), 10, { name: 'a', pid: 7 });
    events.onStep(units[3]!, point(1), 10, { name: 'b', pid: null });
    finish();
    expect(take()).toContain('0/4  left 3 min  a: code-1 attack 1/10  b: code-2 attack 1/10');
  });

  it('pass notices on', () => {
    const { events, take } = listen('plain');
    events.onNotice('code-1: every candidate was vetoed.');
    expect(take()).toBe('code-1: every candidate was vetoed.\n');
  });
});

describe('rough durations', () => {
  it.each([
    [-5, '0 s'],
    [400, '1 s'],
    [9400, '10 s'],
    [42_000, '40 s'],
    [86_000, '85 s'],
    [88_000, '1 min'],
    [100_000, '2 min'],
    [240_000, '4 min'],
    [3_600_000 - 31_000, '59 min'],
    [3_600_000, '1 h'],
    [4_700_000, '1 h 20 min'],
    [10_700_000, '3 h'],
  ])('%i ms are %s', (milliseconds, text) => {
    expect(roughDuration(milliseconds)).toBe(text);
  });
});
