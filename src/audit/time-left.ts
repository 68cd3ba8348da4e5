/**
 * The remaining time of a run, from finished units of the same kind. Kinds without a time yet are estimated: a search
 * from its steps, a universal search from its number of prompts, a measurement as a small part of a search. Several
 * workers share what is left.
 */
import type { UnitName } from './audit-events.js';

export type UnitKind = 'search' | 'universal' | 'measurement';

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
