/** The progress of an audit: the plan, the running unit or what each worker does, and the time left. */
import type { AuditEvents, AuditPlanned, UnitName } from '../../audit/units/audit-unit.js';
import { acceptedLengthText, fixed } from '../../core/number-text.js';
import type { WorkerName } from '../../runs/unit.js';
import { type Clock, type Progress, roughDuration, stopwatch } from '../progress.js';

const thisProcess: WorkerName = { name: '', pid: null };

export function createAuditProgress(progress: Progress, now: Clock = stopwatch): AuditEvents {
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
    progress.update(done, fields, name === '' ? describeUnit(unit, detail) : listWorkers());
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
      estimate?.step(step, steps, worker.name);
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
    onNotice: progress.note,
  };
}

type Detail = Partial<Record<'step' | 'steps' | 'accepted' | 'divergence', number | undefined>>;

function describeUnit(unit: UnitName, { step, steps, accepted, divergence }: Detail): string[] {
  return [
    `drafter ${unit.drafter}`,
    `prompt ${unit.prompt}`,
    `arm ${unit.arm}`,
    ...(step === undefined ? [] : [`step ${step}/${steps}`]),
    ...(accepted === undefined ? [] : [`accepted ${acceptedLengthText(accepted)}`]),
    ...(divergence === undefined ? [] : [`KL ${fixed(divergence, 3)}`]),
  ];
}

function describePlan({ target, drafters, preset, folder, expectedMs }: AuditPlanned): string {
  const plural = drafters.length === 1 ? 'drafter' : 'drafters';
  const time = expectedMs === null ? 'time not known yet' : `about ${roughDuration(expectedMs)}`;
  return `audit: target ${target}, ${plural} ${drafters.join(', ')}, preset ${preset}, run folder ${folder}, ${time}`;
}

// The remaining time of a run, from what is done. Work is counted in searches.
const measurementWork = 0.05;
/** A universal search with its control takes about as long as searches on this share of the prompts. */
const universalShare = 4 / 3;
/** Less says too little about the rest. */
const minDone = 0.1;
/** Finished units that a resumed run only reads take less. */
const minMs = 1;

const isSearch = ({ arm }: UnitName): boolean =>
  /^(attack|undirected|unprojected|preservation-only)/.test(arm);
const nameOf = ({ drafter, prompt, arm }: UnitName): string => JSON.stringify([drafter, prompt, arm]);
const sum = (values: Iterable<number>): number => [...values].reduce((total, value) => total + value, 0);

/** A worker's name is empty where there is only this process; it runs the units in order. */
export class TimeEstimate {
  private readonly waiting: Map<string, number>;
  private readonly running = new Map<string, { work: number; sinceMs: number; share: number }>(); // [worker]
  private readonly total: number;
  private doneWork = 0;
  private firstMs: number | undefined;

  constructor(
    units: readonly UnitName[],
    private readonly expectedMs: number | null = null,
  ) {
    const searched = new Set(units.filter(isSearch).map(({ prompt }) => prompt));
    const universal = Math.max(1, universalShare * searched.size);
    this.waiting = new Map(
      units.map((unit) => [
        nameOf(unit),
        unit.arm === 'universal' ? universal : isSearch(unit) ? 1 : measurementWork,
      ]),
    );
    this.total = sum(this.waiting.values());
  }

  start(unit: UnitName, nowMs: number, worker = ''): void {
    const name = nameOf(unit);
    const work = this.waiting.get(name) ?? 0;
    // Earlier units that never started were skipped with their prompt.
    if (worker === '' && work > 0)
      for (const earlier of this.waiting.keys()) {
        if (earlier === name) break;
        this.waiting.delete(earlier);
      }
    this.waiting.delete(name);
    this.firstMs ??= nowMs;
    this.running.set(worker, { work, sinceMs: nowMs, share: 0 });
  }

  step(done: number, steps: number, worker = ''): void {
    const own = this.running.get(worker);
    if (own !== undefined) own.share = done / Math.max(steps, done, 1);
  }

  end(nowMs: number, worker = ''): void {
    const own = this.running.get(worker);
    this.running.delete(worker);
    if (own !== undefined && nowMs - own.sinceMs >= minMs) this.doneWork += own.work;
  }

  /** Undefined while there is nothing to estimate from. */
  left(nowMs: number): number | undefined {
    const running = [...this.running.values()];
    const open = sum(this.waiting.values()) + sum(running.map(({ work, share }) => work * (1 - share)));
    const done = this.doneWork + sum(running.map(({ work, share }) => work * share));
    if (done >= minDone) return ((nowMs - this.firstMs!) * open) / done;
    const workers = Math.max(1, running.length);
    return this.expectedMs === null ? undefined : (this.expectedMs * open) / this.total / workers;
  }
}
