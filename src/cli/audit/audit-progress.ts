/** The progress of an audit: the plan, the running unit or what each worker does, and the time left. */
import type { AuditEvents, AuditPlanned, UnitName } from '../../audit/audit-events.js';
import { TimeEstimate } from '../../audit/time-left.js';
import { fixed } from '../../core/number-text.js';
import type { WorkerName } from '../../runs/unit.js';
import type { Progress, ProgressClock, ProgressFields } from '../progress.js';
import { describeLeft, roughDuration } from '../progress.js';

/** An audit without workers. */
const thisProcess: WorkerName = { name: '', pid: null };

export function createAuditProgress(progress: Progress, { now }: ProgressClock): AuditEvents {
  const running = new Map<string, { readonly unit: UnitName; readonly step: string }>(); // [worker]
  let estimate: TimeEstimate | undefined;
  let expectedMs: number | null = null;
  let startMs = now();
  let done = 0;
  let ended = 0;
  const listWorkers = (): string[] => {
    const hours = (now() - startMs) / 3_600_000;
    return [
      ...(ended === 0 || hours <= 0 ? [] : [`${fixed(ended / hours, 0)} units/h`]),
      ...[...running].map(([name, { unit, step }]) =>
        `${name}: ${unit.prompt} ${unit.arm} ${step}`.trimEnd(),
      ),
    ];
  };
  const show = (unit: UnitName, { name, pid }: WorkerName, detail: Detail = {}): void => {
    const { drafter, prompt, arm } = unit;
    const leftMs = estimate?.left(now());
    const who = name === '' ? {} : { worker: name, pid: pid ?? undefined };
    const fields = { drafter, prompt, arm, ...detail, ...who, leftMs: leftMs && Math.round(leftMs) };
    progress.update(done, fields, () => [
      ...describeLeft(estimate?.left(now())),
      ...(name === ''
        ? [`drafter ${drafter}`, `prompt ${prompt}`, `arm ${arm}`, ...describeDetail(detail)]
        : listWorkers()),
    ]);
  };
  return {
    onPlan(plan) {
      expectedMs = plan.expectedMs;
      progress.note(describePlan(plan), { ...plan });
    },
    onStart(units) {
      startMs = now();
      estimate = new TimeEstimate(units, expectedMs);
      progress.start(units.length, 'audit');
    },
    onUnitStart(unit, finished, _total, worker = thisProcess) {
      done = finished;
      estimate?.start(unit, now(), worker.name);
      running.set(worker.name, { unit, step: '' });
      show(unit, worker);
    },
    onStep(unit, { step, acceptedLength, divergence }, steps, worker = thisProcess) {
      estimate?.step(step, steps, now(), worker.name);
      running.set(worker.name, { unit, step: `${step}/${steps}` });
      show(unit, worker, { step, steps, accepted: acceptedLength ?? undefined, divergence });
    },
    onUnitEnd(unit, accepted, worker = thisProcess) {
      done += 1;
      ended += 1;
      estimate?.end(now(), worker.name);
      show(unit, worker, { accepted });
      running.delete(worker.name);
    },
    onNotice(message) {
      progress.note(message);
    },
  };
}

type Detail = Partial<Record<'step' | 'steps' | 'accepted' | 'divergence', number | undefined>> &
  ProgressFields;

function describeDetail({ step, steps, accepted, divergence }: Detail): string[] {
  return [
    ...(step === undefined ? [] : [`step ${step}/${steps!}`]),
    ...(accepted === undefined ? [] : [`accepted ${fixed(accepted, 2)}`]),
    ...(divergence === undefined ? [] : [`KL ${fixed(divergence, 3)}`]),
  ];
}

function describePlan({ target, drafters, preset, folder, expectedMs }: AuditPlanned): string {
  const plural = drafters.length === 1 ? 'drafter' : 'drafters';
  const time = expectedMs === null ? 'time not known yet' : `about ${roughDuration(expectedMs)}`;
  return `audit: target ${target}, ${plural} ${drafters.join(', ')}, preset ${preset}, run folder ${folder}, ${time}`;
}
