/** Statistics of the tenant tests: tail probabilities of counts and of mean ranks. */
import { boundLength, confidence } from './cost.js';
import type { Finding } from './verdict.js';

/** Lengths of the stretches that are tested, so that earlier requests do not dilute a beginning attack. */
const stretches = [5, 15, 50] as const;
const driftStretches: readonly number[] = [10, 15, 20, 25, 30, 40];
/** With fewer, `findTail` finds nothing. */
export const minCount = 3;
/** Of a rank, which is uniform from 0 to 1. */
export const rankVariance = 1 / 12;

export const average = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

export interface Counted {
  readonly count: number;
  readonly requests: number;
  readonly probability: number;
}

/** The shortest window of recent outcomes whose count is too high to be chance. */
export function findTail<T>(
  outcomes: readonly T[],
  isCounted: (outcome: T) => boolean,
  expected: number,
  threshold: number,
): Counted | undefined {
  for (const length of stretches) {
    const last = outcomes.slice(-length);
    const count = last.filter(isCounted).length;
    if (count < minCount) continue;
    const probability = binomialTail(count, last.length, expected);
    if (probability <= threshold) return { count, requests: last.length, probability };
  }
  return undefined;
}

/** Requests that are tested together, where each is too short or too near to break-even to be judged by itself. */
const together = { min: 3, max: 15 } as const;

/** The mean accepted length of the last requests, if drafting does not pay for them together. */
export function findLoss(
  outcomes: readonly { readonly steps: number; readonly accepted: number; readonly breakEven: number }[],
): { readonly length: number; readonly requests: number } | undefined {
  const requests = Math.min(outcomes.length, together.max);
  if (requests < together.min) return undefined;
  let [steps, accepted, needed] = [0, 0, 0];
  for (const outcome of outcomes.slice(-requests)) {
    steps += outcome.steps;
    accepted += outcome.accepted;
    needed += outcome.breakEven * outcome.steps;
  }
  const isLoss = boundLength(accepted, steps, confidence.tenant) < needed / steps;
  return isLoss ? { length: 1 + accepted / steps, requests } : undefined;
}

export interface MeanRank {
  readonly requests: number;
  readonly mean: number;
  /** The variance that chance gives it. */
  readonly chance: number;
}

export function meanRanks(outcomes: readonly { readonly rank: number | null }[]): readonly MeanRank[] {
  const means: MeanRank[] = [];
  let requests = 0;
  let sum = 0;
  for (let index = outcomes.length - 1; index >= 0; index--) {
    const { rank } = outcomes[index]!;
    if (rank === null) continue;
    requests += 1;
    sum += rank;
    if (requests === driftStretches[means.length])
      means.push({ requests, mean: sum / requests, chance: rankVariance / requests });
  }
  return means;
}

/** How far means differ beyond chance, as a standard deviation. */
export function spreadBeyondChance(means: readonly Pick<MeanRank, 'mean' | 'chance'>[]): number {
  const center = average(means.map(({ mean }) => mean));
  const seen = average(means.map(({ mean }) => (mean - center) ** 2)) * (means.length / (means.length - 1));
  return Math.sqrt(Math.max(0, seen - average(means.map(({ chance }) => chance))));
}

/** Probability of `count` or more among `requests` where each has the given probability. */
function binomialTail(count: number, requests: number, probability: number): number {
  const odds = probability / (1 - probability);
  let term = (1 - probability) ** requests;
  let below = 0;
  for (let index = 0; index < count; index++) {
    below += term;
    term *= ((requests - index) / (index + 1)) * odds;
  }
  // Far in the tail the difference from 1 has no digits left, so the terms are added instead.
  if (below < 0.99) return 1 - below;
  let tail = 0;
  for (let index = count; index <= requests && term > 0; index++) {
    tail += term;
    term *= ((requests - index) / (index + 1)) * odds;
  }
  return tail;
}

export const chance = ({ probability }: Counted): string =>
  `(probability without an attack ${probability.toExponential(0)})`;
export const percent = (share: number): string => `${(100 * share).toFixed(share < 0.095 ? 1 : 0)} %`;

// Finds a mild attack by a tenant without a past of its own: each new tenant is compared once with the lowest of the known
// ones. A new tenant drawn like n known ones is the lowest with probability 1 / (n + 1), however different tenants are. A
// comparison costs that much of the false alerts that past requests were allowed, and does not start without them.
/** Whether a tenant will be compared, is being compared, or no longer is. */
export type Comparison = 'due' | 'running' | 'over';

interface NewTenant {
  readonly outcomes: readonly { readonly rank: number | null }[];
  comparison: Comparison;
}

interface KnownTenant {
  readonly mean: number;
  /** The variance that chance gives the mean. */
  readonly chance: number;
  readonly weight: number;
}

/** Outcomes that are kept of a tenant. */
export const maxOutcomes = 50;
const minRequests = 10;
const minKnown = 20;
/** Requests from which a tenant is known. */
const knownFrom = 50;
/** How far below the lowest one it has to be, in standard deviations of chance: 99 %. */
const deviations = 2.33;
const minVariance = 0.02;
const maxAllowed = 1;

/** All fields are plain data and saved as they are. */
export class NewTenants {
  private known = { tenants: 0, lowest: 0, chance: 0 };
  /** False alerts that were allowed and not spent. */
  private allowed = 0;

  allow(falseAlerts: number): void {
    this.allowed = Math.min(maxAllowed, this.allowed + falseAlerts);
  }

  learnKnown(tenants: readonly KnownTenant[]): void {
    const known = tenants.filter(({ weight }) => weight >= knownFrom);
    const [lowest] = known.toSorted((left, right) => left.mean - right.mean);
    this.known = { tenants: known.length, lowest: lowest?.mean ?? 0, chance: lowest?.chance ?? 0 };
  }

  compare(tenant: string, state: NewTenant): Finding | undefined {
    if (state.comparison === 'over') return undefined;
    const ranks = state.outcomes.flatMap(({ rank }) => rank ?? []);
    const { tenants, lowest, chance: variance } = this.known;
    const probability = 1 / (tenants + 1);
    if (state.comparison === 'due' && ranks.length >= minRequests) {
      const isAllowed = tenants >= minKnown && probability <= this.allowed;
      state.comparison = isAllowed ? 'running' : 'over';
      if (isAllowed) this.allowed -= probability;
    }
    if (state.comparison !== 'running') return undefined;
    const [requests, mean] = [ranks.length, average(ranks)];
    const own = Math.max(minVariance, average(ranks.map((rank) => (rank - mean) ** 2))) / (requests - 1);
    const isLower = lowest - mean > deviations * Math.sqrt(own + variance);
    if (isLower || requests >= maxOutcomes) state.comparison = 'over';
    if (!isLower) return undefined;
    const counted = { count: requests, requests, probability };
    const text = `The ${requests} requests of this new tenant are lower than those of all ${tenants} known tenants: higher than only ${percent(mean)} of requests on average ${chance(counted)}.`;
    return { tenant, cause: 'drift', ...counted, threshold: this.allowed + probability, text };
  }
}
