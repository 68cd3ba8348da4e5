/**
 * The share of steps that accept a draft token at all, in usual requests of a rung: what the test of the guarded policy holds a request
 * against. It is learnt from requests as they end, of each kind of rung by itself; of kinds
 * there are few, so that nobody can crowd out what is known of the usual ones.
 *
 * The floor is a rank: so low that of further requests like these one in fifty lies below it. Requests that left the rung
 * on evidence are not learnt from, for they may have been attacks; but some were benign, and to drop the lowest each time would
 * raise the floor, drop more, and raise it again. So they count as lying below the floor, for half of the one in fifty at
 * most: no flood of attacks can push it down by more than that. While requests are too few for their lowest to be the
 * floor, it is put below all of them; and at first there is none, for nothing that a test says without having seen anything
 * is worth leaving a rung for: then the account alone decides, which needs to know nothing.
 */
const allowance = 0.02;
/** Shorter ones are mostly chance. */
const minSteps = 16;
const minRequests = 20;
const maxRequests = 512;

interface Kept {
  readonly shares: number[];
  /** [request, latest last] whether it was flagged */
  readonly flags: boolean[];
  floor: number | undefined;
}

export class AcceptanceFloors {
  private readonly kinds = new Map<string, Kept>();

  /** 0 while too little is known. */
  floorOf(kind: string): number {
    const kept = this.kinds.get(kind);
    if (kept === undefined) return 0;
    return (kept.floor ??= findFloor(kept));
  }

  /** A request that kept its rung, or left it for another reason than evidence. */
  learn(kind: string, steps: number, accepting: number): void {
    if (steps < minSteps) return;
    const kept = this.keep(kind);
    push(kept.shares, accepting / steps);
    push(kept.flags, false);
  }

  /** A request that left it on evidence. */
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
