/**
 * The remaining time of a run, from finished units of the same kind. Kinds without a time yet are estimated: a search
 * from its steps, a universal search from its number of prompts, a measurement as a small part of a search.
 */
import type { UnitName } from './audit-events.js';

export interface TimeEstimate {
  start(unit: UnitName, milliseconds: number): void;
  step(done: number, steps: number, milliseconds: number): void;
  end(milliseconds: number): void;
  /** Undefined while there is nothing to estimate from. */
  left(milliseconds: number): number | undefined;
}

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

interface Current {
  readonly place: number;
  readonly kind: UnitKind;
  readonly since: number;
  /** Projected from its steps. */
  readonly projected?: number | undefined;
}

export function createTimeEstimate(
  units: readonly UnitName[],
  expectedMs: number | null = null,
): TimeEstimate {
  const places = new Map(units.map((unit, place) => [nameOf(unit), place]));
  const universalPrompts = Math.max(1, universalShare * countPrompts(units));
  const timed = new Map<UnitKind, { readonly count: number; readonly total: number }>();
  let current: Current | undefined;

  /** Own times first, then the running unit's steps, then searches. */
  const guess = (kind: UnitKind): number | undefined => {
    const known = timed.get(kind);
    if (known !== undefined) return known.total / known.count;
    if (current?.kind === kind && current.projected !== undefined) return current.projected;
    if (kind === 'search') return undefined;
    const search = guess('search');
    return search === undefined
      ? undefined
      : search * (kind === 'universal' ? universalPrompts : measurementShare);
  };

  return {
    start(unit, since) {
      current = { place: places.get(nameOf(unit)) ?? units.length, kind: kindOf(unit), since };
    },
    step(done, steps, now) {
      if (current === undefined || done < 1) return;
      current = { ...current, projected: ((now - current.since) * Math.max(steps, done)) / done };
    },
    end(now) {
      if (current === undefined) return;
      const { kind, since, place } = current;
      const { count, total } = timed.get(kind) ?? { count: 0, total: 0 };
      if (now - since >= minMs) timed.set(kind, { count: count + 1, total: total + now - since });
      current = { place: place + 1, kind, since: now };
    },
    left(now) {
      if (current === undefined) return undefined;
      const { place, since } = current;
      let total: number | undefined = 0;
      for (const unit of units.slice(place)) {
        const each = guess(kindOf(unit));
        total = total === undefined || each === undefined ? undefined : total + each;
      }
      if (total === undefined && expectedMs !== null) total = expectedMs * (1 - place / units.length);
      return total === undefined ? undefined : Math.max(0, total - (now - since));
    },
  };
}

function countPrompts(units: readonly UnitName[]): number {
  return new Set(units.filter((unit) => kindOf(unit) === 'search').map(({ prompt }) => prompt)).size;
}
