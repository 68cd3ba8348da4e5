/**
 * Question 3: does someone do it repeatedly? Three tests over a tenant's recent requests, each at the configured rate:
 *
 *   collapsed  how many of its last requests collapsed, against the share among other tenants (binomial tail), and whether
 *              drafting pays for them together, which also sees many short requests
 *   low        how many were low or collapsed, against the rate of the ranking (binomial tail)
 *   drift      the mean rank of its last requests, against those of tenants in general and its own earlier ones
 *
 * Tests only read what was recorded, so an alert never raises the evidence that the next one needs. A fourth test is about
 * all tenants: the latest requests of at least half of them collapse when the drafter died or was deployed wrongly.
 */
import { RecentMap } from '../state/recent-map.js';
import { boundLength, confidence } from './cost.js';
import type { Counted } from './tail.js';
import { findTail, meanRanks, minCount, normalTail, rankVariance } from './tail.js';
import type { Alert, AlertCause } from './verdict.js';

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

export type Finding = Pick<Alert, 'tenant' | 'cause' | 'count' | 'requests' | 'probability' | 'text'>;

export interface TenantState {
  /** Oldest first. */
  outcomes: Outcome[];
  /** Of those, so that most requests need no test. */
  collapsed: number;
  low: number;
  /** Mean rank of the requests before those, and how many it stands for. */
  history: { mean: number; weight: number };
  /** Requests for which its traffic teaches no baseline; set by alerts and collapses. */
  heldFor: number;
  /** Requests until the same alert may repeat, by cause. */
  muted: Partial<Record<AlertCause, number>>;
}

export interface Passed {
  readonly tenant: string;
  readonly isCollapsed: boolean;
  readonly rank: number | null;
}

const maxOutcomes = 50;
/** Requests that are tested together, where each is too short or too near to break-even to be judged by itself. */
const together = { min: 3, max: 15 } as const;
/** Share of benign requests that collapse, where nothing is known yet, and the requests that this prior stands for. */
const prior = { collapsed: 0.005, requests: 100 } as const;
const maxRecent = 500;
const heldRequests = 32;
const repeatAfter = 100;
const maxHistory = 400;
/** How far tenants' mean ranks differ, while too few are known and at least. */
const defaultSpread = 0.15;
const minSpread = 0.03;
const refreshSpreadEvery = 64;
const minSpreadTenants = 8;
/** For the test of all tenants: how many recent ones it looks at, and the collapsed share where it fires and ends. */
const everyone = { max: 64, min: 5, down: 0.5, up: 0.25 } as const;

export class TenantTests {
  private readonly tenants: RecentMap<TenantState>;
  /** The last requests of all tenants that are not held, oldest first. */
  private recent: Passed[] = [];
  private spread = defaultSpread;
  private sinceSpread = 0;
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
    const isHeld = state.heldFor > 0;
    state.outcomes.push(outcome);
    count(state, outcome, 1);
    if (state.outcomes.length > maxOutcomes) forgetOldest(state, isHeld);
    if (isHeld) state.heldFor -= 1;
    for (const cause in state.muted) {
      const left = state.muted[cause as AlertCause] ?? 0;
      state.muted[cause as AlertCause] = left - 1;
    }
    const found = [
      this.testCollapsed(tenant, state, threshold),
      this.testLow(tenant, state, threshold),
      outcome.rank === null ? undefined : this.testDrift(tenant, state, threshold),
    ].filter((finding) => finding !== undefined);
    if (outcome.isCollapsed || found.length > 0) state.heldFor = heldRequests;
    if (state.heldFor === 0) this.pass({ tenant, isCollapsed: false, rank: outcome.rank });
    else if (!isHeld) this.pass({ tenant, isCollapsed: outcome.isCollapsed, rank: outcome.rank });
    const fresh = found.filter(({ cause }) => (state.muted[cause] ?? 0) <= 0);
    for (const { cause } of fresh) state.muted[cause] = repeatAfter;
    const down = outcome.isConclusive ? this.testEveryone(tenant, outcome.isCollapsed) : undefined;
    return down === undefined ? fresh : [...fresh, down];
  }

  /** A measure was lifted: the next alert fires as soon as there is evidence again, from new requests. */
  clear(tenant: string): void {
    const state = this.tenants.peek(tenant);
    if (state === undefined) return;
    Object.assign(state, { muted: {}, outcomes: [], collapsed: 0, low: 0 });
  }

  save() {
    const { recent, isDown } = this;
    return { tenants: [...this.tenants.entries()], recent, latest: [...this.latest.entries()], isDown };
  }

  restore({ tenants, recent, latest, isDown }: ReturnType<TenantTests['save']>): void {
    this.tenants.replace(tenants);
    this.latest.replace(latest);
    this.recent = recent;
    this.isDown = isDown;
    this.measureSpread();
  }

  private testCollapsed(tenant: string, state: TenantState, threshold: number): Finding | undefined {
    const { outcomes } = state;
    if (state.collapsed < minCount) return testTogether(tenant, outcomes);
    const others = this.recent.filter((passed) => passed.tenant !== tenant);
    const collapsed = others.filter(({ isCollapsed }) => isCollapsed).length;
    const expected = (collapsed + prior.collapsed * prior.requests) / (others.length + prior.requests);
    const conclusive = outcomes.filter(({ isConclusive }) => isConclusive);
    const counted = findTail(conclusive, ({ isCollapsed }) => isCollapsed, expected, threshold);
    if (counted === undefined) return testTogether(tenant, outcomes);
    const text = `Drafting did not pay for ${counted.count} of the last ${counted.requests} requests of this tenant ${chance(counted)}.`;
    return { tenant, cause: 'collapsed', ...counted, text };
  }

  private testLow(tenant: string, { outcomes, low }: TenantState, threshold: number): Finding | undefined {
    if (low < minCount) return undefined;
    const ranked = outcomes.filter(({ rank, isCollapsed }) => rank !== null || isCollapsed);
    // Tenants ask for different things, so one may have twice the share of low requests without an attack.
    const counted = findTail(ranked, isLow, 2 * this.falseAlerts, threshold);
    if (counted === undefined) return undefined;
    const text = `${counted.count} of the last ${counted.requests} requests of this tenant are low ${chance(counted)}.`;
    return { tenant, cause: 'low', ...counted, text };
  }

  private testDrift(tenant: string, state: TenantState, threshold: number): Finding | undefined {
    const { history } = state;
    const means = meanRanks(state.outcomes);
    const highest = Math.max(0.5, history.weight > 0 ? history.mean : 0);
    // Most requests end here: no test at a small threshold can fire.
    if (threshold < 1e-3 && means.every((each) => each.mean > highest - 3 * Math.sqrt(each.chance)))
      return undefined;
    const center = Math.min(0.5, this.meanRankOfOthers(tenant));
    const between = this.spread ** 2;
    const own = 1 / (1 / between + history.weight / rankVariance);
    const usual = own * (center / between + (history.mean * history.weight) / rankVariance);
    for (const { requests, mean, chance: variance } of means) {
      // Against tenants in general too: a tenant's own past must not excuse what it sends now.
      const probability = Math.min(
        normalTail((center - mean) / Math.sqrt(variance + between)),
        normalTail((usual - mean) / Math.sqrt(variance + own)),
      );
      if (probability > threshold) continue;
      const counted = { count: requests, requests, probability };
      const text = `The last ${requests} requests of this tenant are higher than only ${percent(mean)} of requests on average ${chance(counted)}.`;
      return { tenant, cause: 'drift', ...counted, text };
    }
    return undefined;
  }

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
    let count = 0;
    let sum = 0;
    for (let index = this.recent.length - 1; index >= 0 && count < 100; index--) {
      const passed = this.recent[index]!;
      if (passed.rank === null || passed.tenant === tenant) continue;
      count += 1;
      sum += passed.rank;
    }
    return count < 30 ? 0.5 : sum / count + 2 * Math.sqrt(rankVariance / count);
  }

  private pass(passed: Passed): void {
    this.recent.push(passed);
    if (this.recent.length > maxRecent) this.recent.shift();
    this.sinceSpread += 1;
    if (this.sinceSpread >= refreshSpreadEvery) this.measureSpread();
  }

  /** How far tenants' mean ranks differ beyond chance. */
  private measureSpread(): void {
    this.sinceSpread = 0;
    const means = [...this.tenants.entries()].flatMap(([, { outcomes, history, heldFor }]) => {
      const ranks = outcomes.flatMap(({ rank }) => rank ?? []);
      const weight = ranks.length + history.weight;
      if (weight < 30 || heldFor > 0) return [];
      const sum = ranks.reduce((total, rank) => total + rank, 0) + history.mean * history.weight;
      return [{ mean: sum / weight, chance: rankVariance / weight }];
    });
    this.spread = defaultSpread;
    if (means.length < minSpreadTenants) return;
    const average = (values: readonly number[]): number =>
      values.reduce((sum, value) => sum + value, 0) / values.length;
    const center = average(means.map(({ mean }) => mean));
    const seen = average(means.map(({ mean }) => (mean - center) ** 2)) * (means.length / (means.length - 1));
    const byChance = average(means.map((each) => each.chance));
    this.spread = Math.max(minSpread, Math.sqrt(Math.max(0, seen - byChance)));
  }
}

const createState = (): TenantState => ({
  outcomes: [],
  ...{ collapsed: 0, low: 0, heldFor: 0, muted: {} },
  history: { mean: 0.5, weight: 0 },
});

const isLow = (outcome: Outcome): boolean => outcome.isLow || outcome.isCollapsed;

function count(state: TenantState, outcome: Outcome, change: 1 | -1): void {
  if (outcome.isCollapsed) state.collapsed += change;
  if (isLow(outcome)) state.low += change;
}

function forgetOldest(state: TenantState, isHeld: boolean): void {
  const { outcomes, history } = state;
  const oldest = outcomes.shift()!;
  count(state, oldest, -1);
  const { rank } = oldest;
  if (rank === null || isHeld) return;
  history.weight = Math.min(history.weight + 1, maxHistory);
  history.mean += (rank - history.mean) / history.weight;
}

function testTogether(tenant: string, outcomes: readonly Outcome[]): Finding | undefined {
  const requests = Math.min(outcomes.length, together.max);
  if (requests < together.min) return undefined;
  let [steps, accepted, needed] = [0, 0, 0];
  for (let index = outcomes.length - requests; index < outcomes.length; index++) {
    const outcome = outcomes[index]!;
    steps += outcome.steps;
    accepted += outcome.accepted;
    needed += outcome.breakEven * outcome.steps;
  }
  if (boundLength(accepted, steps, confidence.tenant) >= needed / steps) return undefined;
  const text = `Drafting does not pay for this tenant: ${(1 + accepted / steps).toFixed(2)} tokens per step over its last ${requests} requests.`;
  return { tenant, cause: 'collapsed', count: requests, requests, probability: 0.001, text };
}

const chance = ({ probability }: Counted): string =>
  `(probability without an attack ${probability.toExponential(0)})`;
export const percent = (share: number): string => `${(100 * share).toFixed(share < 0.095 ? 1 : 0)} %`;
