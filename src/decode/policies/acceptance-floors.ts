/**
 * The floor of the budgeted policy's test: the lowest share of steps that accept a draft token in usual requests,
 * learned per kind of rung as requests end. There are few kinds, so no one can crowd out what is known of usual
 * requests.
 * The floor is a rank: one in fifty similar requests lies below it. Requests that left a rung on evidence may be
 * attacks, so their shares are not learned. But some were benign, and ignoring them would raise the floor again and
 * again; so they count as below the floor, for at most half of the one in fifty. A flood of attacks cannot lower the
 * floor further. With too few requests the floor is below all of them; with even fewer it is 0, and only the account
 * decides.
 */
const allowance = 0.02;
/** Shorter requests are mostly noise. */
const minSteps = 16;
const minRequests = 20;
const maxRequests = 512;

interface Kept {
  readonly shares: number[];
  /** [request, latest last] */
  readonly flags: boolean[];
  floor: number | undefined;
}

export class AcceptanceFloors {
  private readonly kinds = new Map<string, Kept>();

  /** 0 if too little is known. */
  floorOf(kind: string): number {
    const kept = this.kinds.get(kind);
    if (kept === undefined) return 0;
    return (kept.floor ??= findFloor(kept));
  }

  /** A request that did not leave its rung on evidence. */
  learn(kind: string, steps: number, accepting: number): void {
    if (steps < minSteps) return;
    const kept = this.keep(kind);
    push(kept.shares, accepting / steps);
    push(kept.flags, false);
  }

  flag(kind: string): void {
    push(this.keep(kind).flags, true);
  }

  private keep(kind: string): Kept {
    const kept = this.kinds.get(kind) ?? { shares: [], flags: [], floor: undefined };
    kept.floor = undefined;
    this.kinds.set(kind, kept);
    return kept;
  }
}

function findFloor({ shares, flags }: Kept): number {
  if (shares.length < minRequests) return 0;
  const flagged = flags.filter(Boolean).length;
  const budget = allowance * (shares.length + flagged + 1);
  const left = budget - Math.min(flagged, budget / 2);
  const sorted = [...shares].sort((lower, higher) => lower - higher);
  if (left >= 1) return sorted[Math.floor(left) - 1]!;
  return Math.sqrt(left) * sorted[0]!;
}

function push<Value>(values: Value[], value: Value): void {
  values.push(value);
  if (values.length > maxRequests) values.shift();
}
