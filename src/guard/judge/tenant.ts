/**
 * Question 3: does someone do it repeatedly? Tests over a tenant's recent requests, each at the configured rate:
 *
 *   collapsed  how many collapsed, against the share among other tenants (binomial tail), and whether drafting pays for
 *              them together, which also sees many short requests
 *   low        how many were low or collapsed, against the rate of the ranking (binomial tail)
 *   drift      the mean rank, against those of tenants in general and its own earlier ones; of a new tenant also, once,
 *              against the lowest known tenant
 *
 * An alert never raises the evidence that the next one needs. A fourth test is about all tenants together.
 */
import { RecentMap } from '../state/recent-map.js';
import {
  average,
  chance,
  type Comparison,
  findLoss,
  findTail,
  maxOutcomes,
  meanRanks,
  minCount,
  NewTenants,
  percent,
  rankVariance,
  spreadBeyondChance,
} from './tail.js';
import type { AlertCause, Finding } from './verdict.js';
import { normalUpperTail } from '../../measure/statistics.js';

/** A judged request, as far as its tenant's tests need it. */
export interface Outcome {
  readonly isCollapsed: boolean;
  readonly isLow: boolean;
  /** Null where the baseline is too young. */
  readonly rank: number | null;
  readonly steps: number;
  readonly accepted: number;
  readonly breakEven: number;
  /** Long enough that a collapse would have been recognized. */
  readonly isConclusive: boolean;
}

export interface TenantState {
  /** Oldest first. */
  outcomes: Outcome[];
  /** Mean and variance of the ranks before those, and how many requests they stand for. */
  history: { mean: number; variance: number; weight: number };
  /** Requests for which its traffic teaches no baseline; set by alerts and collapses. */
  heldFor: number;
  comparison: Comparison;
  /** Requests until the same alert may repeat, by cause. */
  muted: Partial<Record<AlertCause, number>>;
}

export type Passed = Pick<Outcome, 'isCollapsed' | 'rank'> & { readonly tenant: string };

/** Share of benign requests that collapse, where nothing is known yet, and the requests that this prior stands for. */
const prior = { collapsed: 0.005, requests: 100 } as const;
const maxRecent = 500;
const heldRequests = 32;
const repeatAfter = 100;
const maxHistory = 400;
/** Requests from which half of the variance of a tenant's ranks is its own. */
const varianceFrom = 50;
/** How far tenants' mean ranks differ: the default while few tenants are known, and the minimum. */
const spreads = { default: 0.15, min: 0.03, minTenants: 8, refreshEvery: 64 } as const;
/** For the test of all tenants: how many recent ones it looks at, and the collapsed share where it fires and ends. */
const everyone = { max: 64, min: 5, down: 0.5, up: 0.25 } as const;

export class TenantTests {
  private readonly tenants: RecentMap<TenantState>;
  /** The last requests of all tenants that are not held, oldest first. */
  private recent: Passed[] = [];
  private spread: number = spreads.default;
  private sinceSpread = 0;
  private readonly newTenants = new NewTenants();
  /** Whether the latest conclusive request of a tenant collapsed: one tenant with many requests is not everyone. */
  private readonly latest = new RecentMap<boolean>(everyone.max);
  private isDown = false;

  constructor(
    limit: number,
    private readonly falseAlerts: number,
  ) {
    this.tenants = new RecentMap(limit);
  }

  get size(): number {
    return this.tenants.size;
  }

  isHeld(tenant: string): boolean {
    return (this.tenants.peek(tenant)?.heldFor ?? 0) > 0;
  }

  /** @param threshold probability at or below which an alert fires */
  learn(tenant: string, outcome: Outcome, threshold: number): readonly Finding[] {
    const state = this.tenants.getOrCreate(tenant, createState);
    const { isCollapsed, rank } = outcome;
    const isHeld = state.heldFor > 0;
    this.newTenants.allow(threshold);
    state.outcomes.push(outcome);
    if (state.outcomes.length > maxOutcomes) forgetOldest(state, isHeld);
    if (isHeld) state.heldFor -= 1;
    for (const [cause, left] of Object.entries(state.muted)) state.muted[cause as AlertCause] = left - 1;
    const found = [
      this.testCollapsed(tenant, state.outcomes, threshold),
      this.testLow(tenant, state.outcomes, threshold),
      rank === null
        ? undefined
        : (this.testDrift(tenant, state, threshold) ?? this.newTenants.compare(tenant, state)),
    ].filter((finding) => finding !== undefined);
    if (isCollapsed || found.length > 0) state.heldFor = heldRequests;
    if (state.heldFor === 0 || !isHeld) this.pass({ tenant, isCollapsed, rank });
    const fresh = found.filter(({ cause }) => (state.muted[cause] ?? 0) <= 0);
    for (const { cause } of fresh) state.muted[cause] = repeatAfter;
    const down = outcome.isConclusive ? this.testEveryone(tenant, isCollapsed) : undefined;
    return down === undefined ? fresh : [...fresh, down];
  }

  /** A measure was lifted: the next alert fires as soon as there is evidence again, from new requests. */
  clear(tenant: string): void {
    const state = this.tenants.peek(tenant);
    if (state !== undefined) Object.assign(state, { muted: {}, outcomes: [] });
  }

  save() {
    const { recent, isDown, spread, sinceSpread } = this;
    const [tenants, latest] = [[...this.tenants.entries()], [...this.latest.entries()]];
    return { tenants, latest, newTenants: this.newTenants, recent, isDown, spread, sinceSpread };
  }

  restore({ tenants, latest, newTenants, ...own }: ReturnType<TenantTests['save']>): void {
    this.tenants.replace(tenants);
    this.latest.replace(latest);
    Object.assign(this.newTenants, newTenants);
    Object.assign(this, own);
  }

  private testCollapsed(
    tenant: string,
    outcomes: readonly Outcome[],
    threshold: number,
  ): Finding | undefined {
    if (outcomes.filter(({ isCollapsed }) => isCollapsed).length < minCount)
      return testTogether(tenant, outcomes);
    const others = this.recent.filter((passed) => passed.tenant !== tenant);
    const collapsed = others.filter(({ isCollapsed }) => isCollapsed).length;
    const expected = (collapsed + prior.collapsed * prior.requests) / (others.length + prior.requests);
    const conclusive = outcomes.filter(({ isConclusive }) => isConclusive);
    const counted = findTail(conclusive, ({ isCollapsed }) => isCollapsed, expected, threshold);
    if (counted === undefined) return testTogether(tenant, outcomes);
    const text = `Drafting did not pay for ${counted.count} of the last ${counted.requests} requests of this tenant ${chance(counted)}.`;
    return { tenant, cause: 'collapsed', ...counted, text };
  }

  private testLow(tenant: string, outcomes: readonly Outcome[], threshold: number): Finding | undefined {
    if (outcomes.filter(isLow).length < minCount) return undefined;
    const ranked = outcomes.filter(({ rank, isCollapsed }) => rank !== null || isCollapsed);
    // Tenants ask for different things, so one may have twice the share of low requests without an attack.
    const counted = findTail(ranked, isLow, 2 * this.falseAlerts, threshold);
    if (counted === undefined) return undefined;
    const text = `${counted.count} of the last ${counted.requests} requests of this tenant are low ${chance(counted)}.`;
    return { tenant, cause: 'low', ...counted, text };
  }

  private testDrift(
    tenant: string,
    { history, outcomes }: TenantState,
    threshold: number,
  ): Finding | undefined {
    const means = meanRanks(outcomes);
    const highest = Math.max(0.5, history.weight > 0 ? history.mean : 0);
    // Most requests end here: no test at a small threshold can fire.
    if (threshold < 1e-3 && means.every((each) => each.mean > highest - 2 * Math.sqrt(each.chance)))
      return undefined;
    const center = Math.min(0.5, this.meanRankOfOthers(tenant));
    const between = this.spread ** 2;
    // A tenant that asks for one kind of text varies less than all requests together.
    const trust = history.weight / (history.weight + varianceFrom);
    const ownVariance = Math.min(rankVariance, trust * history.variance + (1 - trust) * rankVariance);
    const own = 1 / (1 / between + history.weight / ownVariance);
    const usual = own * (center / between + (history.mean * history.weight) / ownVariance);
    for (const { requests, mean, chance: variance } of means) {
      // Against tenants in general too: a tenant's own past must not excuse what it sends now.
      const probability = Math.min(
        normalUpperTail((center - mean) / Math.sqrt(variance + between)),
        normalUpperTail((usual - mean) / Math.sqrt(ownVariance / requests + own)),
      );
      if (probability > threshold) continue;
      const counted = { count: requests, requests, probability };
      const text = `The last ${requests} requests of this tenant are higher than only ${percent(mean)} of requests on average ${chance(counted)}.`;
      return { tenant, cause: 'drift', ...counted, text };
    }
    return undefined;
  }

  /** The latest requests of half of the tenants collapse when the drafter died or was deployed wrongly. */
  private testEveryone(tenant: string, isCollapsed: boolean): Finding | undefined {
    this.latest.set(tenant, isCollapsed);
    if (!isCollapsed && !this.isDown) return undefined;
    const requests = this.latest.size;
    const count = [...this.latest.entries()].filter(([, hasCollapsed]) => hasCollapsed).length;
    const wasDown = this.isDown;
    this.isDown = wasDown
      ? count > everyone.up * requests
      : requests >= everyone.min && count >= everyone.down * requests;
    if (wasDown || !this.isDown) return undefined;
    const text = `Drafting did not pay for the latest request of ${count} of ${requests} tenants: check the drafter.`;
    return { tenant: null, cause: 'drafter-down', count, requests, probability: 0, text };
  }

  private meanRankOfOthers(tenant: string): number {
    const ranks = this.recent.flatMap((passed) => (passed.tenant === tenant ? [] : (passed.rank ?? [])));
    const last = ranks.slice(-100);
    return last.length < 30 ? 0.5 : average(last) + 2 * Math.sqrt(rankVariance / last.length);
  }

  private pass(passed: Passed): void {
    this.recent.push(passed);
    if (this.recent.length > maxRecent) this.recent.shift();
    this.sinceSpread += 1;
    if (this.sinceSpread >= spreads.refreshEvery) this.measureSpread();
  }

  /** How far tenants' mean ranks differ beyond chance. */
  private measureSpread(): void {
    this.sinceSpread = 0;
    const means = [...this.tenants.entries()].flatMap(([, { outcomes, history, heldFor }]) => {
      const ranks = outcomes.flatMap(({ rank }) => rank ?? []);
      const weight = ranks.length + history.weight;
      if (weight < 30 || heldFor > 0) return [];
      const sum = ranks.reduce((total, rank) => total + rank, 0) + history.mean * history.weight;
      return [{ mean: sum / weight, chance: rankVariance / weight, weight }];
    });
    this.newTenants.learnKnown(means);
    const isKnown = means.length >= spreads.minTenants;
    this.spread = isKnown ? Math.max(spreads.min, spreadBeyondChance(means)) : spreads.default;
  }
}

const createState = (): TenantState => ({
  outcomes: [],
  heldFor: 0,
  muted: {},
  comparison: 'due',
  history: { mean: 0.5, variance: rankVariance, weight: 0 },
});

const isLow = (outcome: Outcome): boolean => outcome.isLow || outcome.isCollapsed;

function forgetOldest({ outcomes, history }: TenantState, isHeld: boolean): void {
  const { rank } = outcomes.shift()!;
  if (rank === null || isHeld) return;
  history.weight = Math.min(history.weight + 1, maxHistory);
  const distance = rank - history.mean;
  history.mean += distance / history.weight;
  history.variance += (distance * (rank - history.mean) - history.variance) / history.weight;
}

function testTogether(tenant: string, outcomes: readonly Outcome[]): Finding | undefined {
  const counted = findLoss(outcomes);
  if (counted === undefined) return undefined;
  const { length, requests } = counted;
  const text = `Drafting does not pay for this tenant: ${length.toFixed(2)} tokens per step over its last ${requests} requests.`;
  return { tenant, cause: 'collapsed', count: requests, requests, probability: 0.001, text };
}
