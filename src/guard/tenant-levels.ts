/**
 * Where each tenant's requests lie among everybody's, and how low a tenant may lie before that is evidence. A request counts by its
 * rank (rank-table.ts), so that a tenant's mean is one half if it asks what everybody asks. Tenants differ: one that asks for nothing but
 * prose lies low all its life and attacks nobody. How much they differ is learnt, as in a model with random effects:
 * of the spread of tenants' means, what chance gives so many requests is taken off, and the rest is how tenants
 * differ. From it follow two floors of a tenant's mean rank:
 *
 *   a newcomer's    the mean of tenants, less twice what they differ by
 *   its own         its own mean so far, drawn towards that of all the more the fewer requests it has, less twice what it
 *                   is uncertain by
 *
 * and the higher one holds. So its own past only ever sharpens a tenant's test: whoever attacks from the first request on is
 * compared with what newcomers are like, and cannot teach a floor below that. Only tenants that have not rung teach, many of them are
 * needed to move what tenants differ by, and `lowestFloor` bounds even that. Where all are alike the test is sharp, and where
 * tenants differ much it is blunt for newcomers: their requests say little then. And where everybody has become lower, by the
 * latest request of each of many tenants, it is nobody's fault: the floors go down with them.
 */
import { RecentMap } from './recent-map.js';

export interface TenantLevel {
  /** Requests, as far as they still count. */
  weight: number;
  /** Of ranks. */
  mean: number;
}

export interface SavedLevels {
  readonly tenants: readonly (readonly [string, Readonly<TenantLevel>])[];
  readonly latest: readonly (readonly [string, number])[];
}

interface Spread {
  readonly mean: number;
  /** Variance of tenants' means beyond chance. */
  readonly between: number;
}

/** A tenant's mean is one of its last two hundred requests or so. */
const mostWeight = 200;
/** Requests after which a tenant's mean says something about tenants, and how many such tenants are needed. */
const leastRequests = 40;
const leastTenants = 8;
/** Of a rank that takes any value alike. */
const variance = 1 / 12;
const deviations = 2;
/** What the baseline's own chance may be wrong by, and what it drifts. */
const margin = 0.03;
export const lowestFloor = 0.2;
/** Going through all tenants for each request would be waste. */
const refreshEvery = 64;
const latestTenants = 64;

export class TenantLevels {
  private tenants: RecentMap<TenantLevel>;
  /** The latest rank of each tenant. */
  private latest = new RecentMap<number>(latestTenants);
  private spread: Spread | undefined;
  private staleness = Infinity;

  constructor(private readonly limit: number) {
    this.tenants = new RecentMap(limit);
  }

  /** Undefined while too little is known about how tenants differ. */
  floor(tenant: string): number | undefined {
    const spread = this.findSpread();
    if (spread === undefined) return undefined;
    const { between } = spread;
    const mean = Math.min(spread.mean, this.highestNow());
    const newcomer = mean - deviations * Math.sqrt(between);
    const { weight, mean: own } = this.tenants.peek(tenant) ?? { weight: 0, mean };
    const chance = variance / Math.max(weight, 1);
    const share = weight === 0 ? 0 : between / (between + chance);
    const known = mean + share * (own - mean) - deviations * Math.sqrt(share * chance);
    return Math.max(lowestFloor, (weight === 0 ? newcomer : Math.max(newcomer, known)) - margin);
  }

  /** Any request that was judged. */
  see(tenant: string, rank: number): void {
    this.latest.set(tenant, rank);
  }

  /** A request that did not ring, of a tenant that has not rung lately. */
  learn(tenant: string, rank: number): void {
    const level = this.tenants.getOrCreate(tenant, () => ({ weight: 0, mean: 0 }));
    level.weight = Math.min(level.weight + 1, mostWeight);
    level.mean += (rank - level.mean) / level.weight;
    this.staleness += 1;
  }

  /** It rang: what it taught may have been the attack. */
  forget(tenant: string): void {
    if (this.tenants.delete(tenant)) this.staleness = Infinity;
  }

  save(): SavedLevels {
    this.staleness = Infinity; // what is restored is reckoned anew, and goes on as this does
    const tenants = [...this.tenants.entries()].map(([tenant, level]) => [tenant, { ...level }] as const);
    return { tenants, latest: [...this.latest.entries()] };
  }

  restore({ tenants, latest }: SavedLevels): void {
    this.tenants = new RecentMap(this.limit);
    for (const [tenant, level] of tenants) this.tenants.set(tenant, { ...level });
    this.latest = new RecentMap(latestTenants);
    for (const [tenant, rank] of latest) this.latest.set(tenant, rank);
    this.staleness = Infinity;
  }

  /** What the mean of everybody may be at this moment at most. */
  private highestNow(): number {
    const { size } = this.latest;
    if (size < leastTenants) return Infinity;
    let sum = 0;
    for (const [, rank] of this.latest.entries()) sum += rank;
    return sum / size + deviations * Math.sqrt(variance / size);
  }

  private findSpread(): Spread | undefined {
    if (this.staleness < refreshEvery) return this.spread;
    this.staleness = 0;
    const levels = [...this.tenants.entries()].map(([, level]) => level);
    const settled = levels.filter(({ weight }) => weight >= leastRequests);
    this.spread = settled.length < leastTenants ? undefined : measureSpread(settled);
    return this.spread;
  }
}

function measureSpread(levels: readonly TenantLevel[]): Spread {
  const average = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  const mean = average(levels.map((level) => level.mean));
  const squares = levels.map((level) => (level.mean - mean) ** 2);
  const chance = average(levels.map(({ weight }) => variance / weight));
  const seen = (average(squares) * levels.length) / (levels.length - 1);
  return { mean, between: Math.max(0, seen - chance) };
}
