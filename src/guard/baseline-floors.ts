/**
 * Floors of several shares at once, such that a further request from the same place lies below any of them with at most a given
 * probability, whatever its distribution: by rank. Of n requests and one more, each is equally likely to be among the k
 * lowest in some share; so if d of the n are, the chance that the next one is, too, is about d / (n + 1), and k is chosen
 * as large as d allows. Nothing is assumed about the shape: code with 4 tokens a step beside prose with 1.5 is no outlier.
 *
 * Requests that rang are not among the n, for they may have been attacks. But some were benign: dropping the lowest each
 * time would raise the floor, drop more, and raise it again without end. So they count as requests below every
 * floor, for three quarters of the allowance at most: no flood of attacks can push the floors down by more than that.
 *
 * While requests are too few for even the lowest of them to be the floor, it is put below all of them, as if the chance of
 * a share below x fell no faster than x squared towards 0. That part is a rule of thumb and promises nothing.
 */
export interface WeightedShares {
  readonly weight: number;
  readonly shares: readonly number[];
}

export interface Floors {
  readonly floors: readonly number[];
  /** There are requests enough for the floors to be ranks of them. */
  readonly isGrown: boolean;
}

const mostFlagged = 0.75;

export function findFloors(
  samples: readonly WeightedShares[],
  allowance: number,
  flaggedWeight: number,
): Floors | undefined {
  const [first] = samples;
  if (first === undefined) return undefined;
  const total = samples.reduce((sum, { weight }) => sum + weight, flaggedWeight) + 1;
  const budget = allowance * total - Math.min(flaggedWeight, mostFlagged * allowance * total);
  const ranked = first.shares.map((_, share) =>
    [...samples].sort((left, right) => left.shares[share]! - right.shares[share]!),
  );
  const lowest = new Set<WeightedShares>();
  let mass = 0;
  let floors: readonly number[] | undefined;
  for (let rank = 0; rank < samples.length; rank++) {
    for (const order of ranked) {
      const sample = order[rank]!;
      if (!lowest.has(sample)) mass += sample.weight;
      lowest.add(sample);
    }
    if (mass > budget) break;
    floors = ranked.map((order, share) => order[rank]!.shares[share]!);
  }
  if (floors !== undefined) return { floors, isGrown: true };
  const bottom = new Set(ranked.map((order) => order[0]!));
  const bottomMass = [...bottom].reduce((sum, { weight }) => sum + weight, 0);
  const part = Math.min(1, Math.sqrt(budget / bottomMass));
  // Flagged requests may leave too little of the allowance for a rank where there are requests enough.
  const isGrown = bottomMass <= allowance * total;
  return { floors: ranked.map((order, share) => part * order[0]!.shares[share]!), isGrown };
}

/** The values below which these shares of the weight lie; they need not be sorted. */
export function findQuantiles(
  values: readonly { readonly value: number; readonly weight: number }[],
  shares: readonly number[],
): readonly number[] {
  const sorted = [...values].sort((left, right) => left.value - right.value);
  const total = sorted.reduce((sum, { weight }) => sum + weight, 0);
  return shares.map((share) => {
    let below = 0;
    for (const { value, weight } of sorted) {
      below += weight;
      if (below >= share * total) return value;
    }
    return sorted.at(-1)?.value ?? NaN;
  });
}
