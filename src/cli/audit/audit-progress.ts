/** The progress of an audit: the plan, the running unit or what each worker does, and the time left. */
import type { AuditEvents, AuditPlanned, UnitName } from '../../audit/units/audit-unit.js';
import { fixed } from '../../core/number-text.js';
import type { WorkerName } from '../../runs/unit.js';
import {
  describeLeft,
  type Progress,
  type ProgressClock,
  type ProgressFields,
  roughDuration,
} from '../progress.js';

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

// The remaining time of a run, from finished units of the same kind. Kinds without a time yet are estimated: a search
// from its steps, a universal search from its number of prompts, a measurement as a small part of a search. Several
// workers share what is left.
type UnitKind = 'search' | 'universal' | 'measurement';

export function kindOf({ arm }: Pick<UnitName, 'arm'>): UnitKind {
  if (arm === 'universal') return 'universal';
  return /^(attack|undirected|unprojected|preservation-only)/.test(arm) ? 'search' : 'measurement';
}

const nameOf = ({ drafter, prompt, arm }: UnitName): string => JSON.stringify([drafter, prompt, arm]);

/** Of a search, until a measurement was timed. */
const measurementShare = 0.05;
const universalShare = 2 / 3;
/** Times of finished units that a resumed run only reads. */
const minMs = 1;

interface RunningUnit {
  readonly kind: UnitKind;
  readonly sinceMs: number;
  /** Projected from its steps. */
  readonly projectedMs?: number;
}

/** A worker's name is empty where there is only this process; it runs the units in order. */
export class TimeEstimate {
  private readonly waiting: Map<string, UnitKind>;
  private readonly running = new Map<string, RunningUnit>(); // [worker]
  private readonly timed = new Map<UnitKind, { readonly count: number; readonly totalMs: number }>();
  private readonly universalPrompts: number;

  constructor(
    private readonly units: readonly UnitName[],
    private readonly expectedMs: number | null = null,
  ) {
    this.waiting = new Map(units.map((unit) => [nameOf(unit), kindOf(unit)]));
    const searched = units.filter((unit) => kindOf(unit) === 'search').map(({ prompt }) => prompt);
    this.universalPrompts = Math.max(1, universalShare * new Set(searched).size);
  }

  start(unit: UnitName, nowMs: number, worker = ''): void {
    const name = nameOf(unit);
    // Earlier units that never started were skipped with their prompt.
    if (worker === '' && this.waiting.has(name))
      for (const earlier of this.waiting.keys()) {
        if (earlier === name) break;
        this.waiting.delete(earlier);
      }
    this.waiting.delete(name);
    this.running.set(worker, { kind: kindOf(unit), sinceMs: nowMs });
  }

  step(done: number, steps: number, nowMs: number, worker = ''): void {
    const own = this.running.get(worker);
    if (own === undefined || done < 1) return;
    const projectedMs = ((nowMs - own.sinceMs) * Math.max(steps, done)) / done;
    this.running.set(worker, { ...own, projectedMs });
  }

  end(nowMs: number, worker = ''): void {
    const own = this.running.get(worker);
    this.running.delete(worker);
    if (own === undefined || nowMs - own.sinceMs < minMs) return;
    const { count, totalMs } = this.timed.get(own.kind) ?? { count: 0, totalMs: 0 };
    this.timed.set(own.kind, { count: count + 1, totalMs: totalMs + nowMs - own.sinceMs });
  }

  /** Undefined while there is nothing to estimate from. */
  left(nowMs: number): number | undefined {
    const running = [...this.running.values()];
    const workers = Math.max(1, running.length);
    const elapsedMs = running.map(({ sinceMs }) => nowMs - sinceMs);
    const known = [
      ...[...this.waiting.values()].map((kind) => this.guess(kind)),
      ...running.map(({ kind }, index) => Math.max(0, this.guess(kind) - elapsedMs[index]!)),
    ].reduce((sum, each) => sum + each, 0);
    if (!Number.isNaN(known)) return known / workers;
    if (this.expectedMs === null) return undefined;
    const open = this.waiting.size + running.length;
    const expectedMs = (this.expectedMs * open) / this.units.length / workers;
    return Math.max(0, expectedMs - (elapsedMs[0] ?? 0));
  }

  /** Own times first, then the steps of a running unit, then searches; NaN while nothing is known. */
  private guess(kind: UnitKind): number {
    const known = this.timed.get(kind);
    if (known !== undefined) return known.totalMs / known.count;
    const projected = [...this.running.values()].find(
      (unit) => unit.kind === kind && unit.projectedMs !== undefined,
    );
    if (projected !== undefined) return projected.projectedMs!;
    if (kind === 'search') return NaN;
    return this.guess('search') * (kind === 'universal' ? this.universalPrompts : measurementShare);
  }
}
