/** How long the rest of a run takes, from the units that are finished: a search is compared with searches. */
import type { UnitName } from './drafter-audit.js';

export interface TimeEstimate {
  start(unit: UnitName, milliseconds: number): void;
  end(milliseconds: number): void;
  /** Milliseconds; undefined until a unit of each kind that is still to come has been timed. */
  left(milliseconds: number): number | undefined;
}

type Kind = 'search' | 'measurement';

export function kindOf({ arm }: Pick<UnitName, 'arm'>): Kind {
  return /^(attack|unprojected|preservation-only)/.test(arm) ? 'search' : 'measurement';
}

const nameOf = ({ drafter, prompt, arm }: UnitName): string => JSON.stringify([drafter, prompt, arm]);

/** `units` in the order in which they run. */
export function createTimeEstimate(units: readonly UnitName[]): TimeEstimate {
  const places = new Map(units.map((unit, place) => [nameOf(unit), place]));
  const timed: Record<Kind, { count: number; total: number }> = {
    search: { count: 0, total: 0 },
    measurement: { count: 0, total: 0 },
  };
  let current: { readonly place: number; readonly kind: Kind; readonly since: number } | undefined;
  return {
    start(unit, since) {
      current = { place: places.get(nameOf(unit)) ?? units.length, kind: kindOf(unit), since };
    },
    end(now) {
      if (current === undefined) return;
      timed[current.kind].count += 1;
      timed[current.kind].total += now - current.since;
      current = { ...current, place: current.place + 1, since: now };
    },
    left(now) {
      if (current === undefined) return undefined;
      let total = 0;
      for (const unit of units.slice(current.place)) {
        const { count, total: spent } = timed[kindOf(unit)];
        if (count === 0) return undefined;
        total += spent / count;
      }
      return Math.max(0, total - (now - current.since));
    },
  };
}
