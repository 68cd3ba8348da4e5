/**
 * Compares the engine's own counters with the sum over observed requests. The difference is drafting that no observed
 * request explains: traffic that does not pass the guard, or requests it cannot read.
 */
import type { EngineCounters } from '../engines/counters.js';
import type { Observation } from '../observation.js';

interface Totals {
  /** Null once a request did not report it. */
  readonly draftTokens: number | null;
  readonly steps: number;
}

interface Snapshot {
  readonly engine: Totals;
  readonly observed: Totals;
}

/** Requests count when they end, the engine's counters while they run: a longer window evens that out. */
const maxSnapshots = 40;
const minSteps = 100;

export class Attribution {
  private draftTokens = 0;
  private steps = 0;
  private hasUncounted = false;
  private snapshots: Snapshot[] = [];

  add({ speculation, upstream }: Pick<Observation, 'speculation' | 'upstream'>): void {
    if (speculation === null || upstream === 'plain') return;
    this.steps += speculation.steps;
    if (speculation.proposed === null) this.hasUncounted = true;
    else this.draftTokens += speculation.proposed;
  }

  /** The unattributed share since the oldest snapshot; null where too little happened or the engine counts too little. */
  compare(counters: readonly EngineCounters[]): number | null {
    const sum = (read: (each: EngineCounters) => number | null): number | null =>
      counters.reduce<number | null>((total, each) => {
        const value = read(each);
        return total === null || value === null ? null : total + value;
      }, 0);
    const now: Snapshot = {
      engine: { draftTokens: sum((each) => each.draftTokens), steps: sum((each) => each.drafts) ?? 0 },
      observed: { draftTokens: this.hasUncounted ? null : this.draftTokens, steps: this.steps },
    };
    this.hasUncounted = false;
    const last = this.snapshots.at(-1);
    if (last !== undefined && now.engine.steps < last.engine.steps) this.snapshots = []; // the engine restarted
    this.snapshots.push(now);
    if (this.snapshots.length > maxSnapshots) this.snapshots.shift();
    const [first] = this.snapshots;
    return share(
      first!,
      now,
      this.snapshots.every(({ observed }) => observed.draftTokens !== null),
    );
  }
}

/** Draft tokens where all requests report them: engines count drafted steps only, some requests all passes. */
function share(before: Snapshot, after: Snapshot, isCounted: boolean): number | null {
  const steps = after.engine.steps - before.engine.steps;
  const counted = after.engine.draftTokens;
  if (isCounted && counted !== null) {
    const drafted = counted - (before.engine.draftTokens ?? 0);
    if (drafted < minSteps) return null;
    return toShare(after.observed.draftTokens! - before.observed.draftTokens!, drafted);
  }
  return steps < minSteps ? null : toShare(after.observed.steps - before.observed.steps, steps);
}

const toShare = (observed: number, counted: number): number => Math.max(0, 1 - observed / counted);
