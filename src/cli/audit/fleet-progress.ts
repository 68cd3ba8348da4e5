/** The progress of an audit with several workers: what each of them does, how fast they are, and the time left. */
import type { AuditEvents, UnitName } from '../../audit/audit-events.js';
import type { UnitKind } from '../../audit/time-left.js';
import { kindOf } from '../../audit/time-left.js';
import { fixed } from '../../core/number-text.js';
import type { WorkerName } from '../../runs/unit.js';
import type { Progress, ProgressClock } from '../progress.js';
import { describeLeft } from '../progress.js';
import { describePlan } from './audit-progress.js';

interface WorkerState {
  readonly unit: UnitName;
  readonly sinceMs: number;
  readonly step: string;
}

const noWorker: WorkerName = { name: '', pid: null };

interface Timed {
  readonly count: number;
  readonly totalMs: number;
}

export function createFleetProgress(progress: Progress, { now }: ProgressClock): AuditEvents {
  const workers = new Map<string, WorkerState>();
  const timed = new Map<UnitKind, Timed>();
  const remaining = new Map<UnitKind, number>();
  let done = 0;
  let startMs = now();
  let finished = 0;
  const show = (unit: UnitName, worker: WorkerName, fields: Readonly<Record<string, number>> = {}): void => {
    const leftMs = timeLeft();
    const who = { worker: worker.name, ...(worker.pid === null ? {} : { pid: worker.pid }) };
    const left = leftMs === undefined ? {} : { leftMs: Math.round(leftMs) };
    progress.update(done, { ...unit, ...fields, ...who, ...left }, () => [
      ...describeLeft(timeLeft()),
      ...describeRate(),
      ...[...workers].map(([name, { unit: own, step }]) => `${name}: ${own.prompt} ${own.arm}${step}`),
    ]);
  };
  /** Units of each kind times their mean time, divided among the workers that are busy. */
  const timeLeft = (): number | undefined => {
    let total = 0;
    for (const [kind, count] of remaining) {
      const known = timed.get(kind) ?? timed.get('search');
      if (count > 0 && known === undefined) return undefined;
      total += count === 0 ? 0 : (count * known!.totalMs) / known!.count;
    }
    return total / Math.max(1, workers.size);
  };
  const describeRate = (): string[] => {
    const hours = (now() - startMs) / 3_600_000;
    return finished === 0 || hours <= 0 ? [] : [`${fixed(finished / hours, 0)} units/h`];
  };
  return {
    onPlan(plan) {
      progress.note(describePlan(plan), { ...plan });
    },
    onStart(units) {
      startMs = now();
      for (const unit of units) remaining.set(kindOf(unit), (remaining.get(kindOf(unit)) ?? 0) + 1);
      progress.start(units.length, 'audit');
    },
    onUnitStart(unit, finishedUnits, _total, worker = noWorker) {
      done = finishedUnits;
      workers.set(worker.name, { unit, sinceMs: now(), step: '' });
      show(unit, worker);
    },
    onStep(unit, point, steps, worker = noWorker) {
      const sinceMs = workers.get(worker.name)?.sinceMs ?? now();
      workers.set(worker.name, { unit, sinceMs, step: ` ${point.step}/${steps}` });
      const accepted = point.acceptedLength === null ? {} : { accepted: point.acceptedLength };
      show(unit, worker, { step: point.step, steps, ...accepted });
    },
    onUnitEnd(unit, acceptedLength, worker = noWorker) {
      const kind = kindOf(unit);
      const sinceMs = workers.get(worker.name)?.sinceMs ?? now();
      const { count, totalMs } = timed.get(kind) ?? { count: 0, totalMs: 0 };
      timed.set(kind, { count: count + 1, totalMs: totalMs + now() - sinceMs });
      remaining.set(kind, Math.max(0, (remaining.get(kind) ?? 0) - 1));
      done += 1;
      finished += 1;
      show(unit, worker, acceptedLength === undefined ? {} : { accepted: acceptedLength });
      workers.delete(worker.name);
    },
    onNotice(message) {
      progress.note(message);
    },
  };
}
