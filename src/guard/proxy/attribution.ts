/** Compares the engine's own counters with the sum over observed requests: traffic around the guard, or unreadable. */
import type { EngineCounters } from '../engines/counters.js';
import type { Observation } from '../observation.js';

/** Draft tokens where all requests report them: engines count drafted steps only, some requests all passes. */
interface Totals {
  readonly draftTokens: number;
  readonly steps: number;
}

interface Snapshot {
  readonly engine: Totals;
  readonly observed: Totals;
  /** Engine and requests have counted draft tokens since the snapshot before. */
  readonly areTokensCounted: boolean;
}

/** Requests count when they end, the engine's counters while they run: a longer window evens that out. */
const maxSnapshots = 40;
const minSteps = 100;

export class Attribution {
  private observed = { draftTokens: 0, steps: 0 };
  private hasUncounted = false;
  private snapshots: Snapshot[] = [];

  add({ speculation, upstream }: Pick<Observation, 'speculation' | 'upstream'>): void {
    if (speculation === null || upstream === 'plain') return;
    this.observed.steps += speculation.steps;
    this.observed.draftTokens += speculation.proposed ?? 0;
    if (speculation.proposed === null) this.hasUncounted = true;
  }

  /** The unattributed share since the oldest snapshot; null where too little happened or the engine counts too little. */
  compare(counters: readonly EngineCounters[]): number | null {
    const sum = (name: 'draftTokens' | 'drafts'): number =>
      counters.reduce((total, each) => total + (each[name] ?? 0), 0);
    const now: Snapshot = {
      engine: { draftTokens: sum('draftTokens'), steps: sum('drafts') },
      observed: { ...this.observed },
      areTokensCounted: !this.hasUncounted && counters.every(({ draftTokens }) => draftTokens !== null),
    };
    this.hasUncounted = false;
    if (now.engine.steps < (this.snapshots.at(-1)?.engine.steps ?? 0)) this.snapshots = []; // it restarted
    this.snapshots.push(now);
    if (this.snapshots.length > maxSnapshots) this.snapshots.shift();
    const [first] = this.snapshots;
    const unit = this.snapshots.every(({ areTokensCounted }) => areTokensCounted) ? 'draftTokens' : 'steps';
    const counted = now.engine[unit] - first!.engine[unit];
    const observed = now.observed[unit] - first!.observed[unit];
    return counted < minSteps ? null : Math.max(0, 1 - observed / counted);
  }
}
