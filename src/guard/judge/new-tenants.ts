/**
 * Finds a mild attack by a tenant without a past of its own: each new tenant is compared once with the lowest of the known
 * ones. A new tenant drawn like n known ones is the lowest with probability 1 / (n + 1), however different tenants are. A
 * comparison costs that much of the false alerts that past requests were allowed, and does not start without them.
 */
import { average, chance, percent } from './tail.js';
import type { Finding } from './verdict.js';

/** Whether a tenant will be compared, is being compared, or no longer is. */
export type Comparison = 'due' | 'running' | 'over';

export interface NewTenant {
  readonly outcomes: readonly { readonly rank: number | null }[];
  comparison: Comparison;
}

interface KnownTenant {
  readonly mean: number;
  /** The variance that chance gives the mean. */
  readonly chance: number;
  readonly weight: number;
}

const minRequests = 10;
const minKnown = 20;
/** Requests from which a tenant is known. */
const knownFrom = 50;
/** How far below the lowest one it has to be, in standard deviations of chance: 99 %. */
const deviations = 2.33;
const minVariance = 0.02;
const maxAllowed = 1;

export class NewTenants {
  private known = { tenants: 0, lowest: 0, chance: 0 };
  /** False alerts that were allowed and not spent. */
  private allowed = 0;

  constructor(private readonly maxRequests: number) {}

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
    if (isLower || requests >= this.maxRequests) state.comparison = 'over';
    if (!isLower) return undefined;
    const counted = { count: requests, requests, probability };
    const text = `The ${requests} requests of this new tenant are lower than those of all ${tenants} known tenants: higher than only ${percent(mean)} of requests on average ${chance(counted)}.`;
    return { tenant, cause: 'drift', ...counted, threshold: this.allowed + probability, text };
  }

  save() {
    const { known, allowed } = this;
    return { known, allowed };
  }

  restore(saved: ReturnType<NewTenants['save']>): void {
    Object.assign(this, saved);
  }
}
