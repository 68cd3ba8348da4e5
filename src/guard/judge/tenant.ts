/**
 * Question 3: does someone do it repeatedly? Three tests over a tenant's recent requests, each at the configured rate:
 *
 *   collapsed  how many of its last requests collapsed, against the share among other tenants (binomial tail), and whether
 *              drafting pays for them together, which also sees many short requests
 *   low        how many were low or collapsed, against the rate of the ranking (binomial tail)
 *   drift      the mean rank of its last requests, against those of tenants in general and its own earlier ones
 *
 * Tests only read what was recorded, so an alert never raises the evidence that the next one needs.
 */
import { RecentMap } from '../state/recent-map.js';
import { boundLength, confidence } from './cost.js';
import { binomialTail, normalTail } from './tail.js';
import type { AlertCause } from './verdict.js';

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

export interface Finding {
  readonly cause: Exclude<AlertCause, 'drafter-down'>;
  readonly count: number;
  readonly requests: number;
  readonly probability: number;
  /** Mean rank or mean accepted length, where one of them is the evidence. */
  readonly mean: number | null;
}

export interface TenantState {
  /** Oldest first. */
  outcomes: Outcome[];
  /** Mean rank of the requests before those, and how many it stands for. */
  history: { mean: number; weight: number };
  /** Requests for which its traffic teaches no baseline; set by alerts and collapses. */
  heldFor: number;
  /** Requests until the same alert may repeat, by cause. */
  muted: Partial<Record<AlertCause, number>>;
}

interface Passed {
  readonly tenant: string;
  readonly isCollapsed: boolean;
  readonly rank: number | null;
}

export interface SavedTenant {
  readonly outcomes: readonly Outcome[];
  readonly history: Readonly<TenantState['history']>;
  readonly heldFor: number;
  readonly muted: Readonly<Partial<Record<AlertCause, number>>>;
}

export interface SavedTenants {
  readonly tenants: readonly (readonly [string, SavedTenant])[];
  readonly recent: readonly Passed[];
}

/** Lengths of the stretches that are tested, so that earlier requests do not dilute a beginning attack. */
const stretches = [5, 15, 50] as const;
const driftStretches: readonly number[] = [10, 15, 20, 25, 30, 40];
const maxTogether = 15;
const maxOutcomes = 50;
const minCount = 3;
/** Share of benign requests that collapse, where nothing is known yet, and the requests that this prior stands for. */
const prior = { collapsed: 0.005, requests: 100 } as const;
const maxRecent = 500;
const heldRequests = 32;
const repeatAfter = 100;
const maxHistory = 400;
/** How far tenants' mean ranks differ, while too few are known and at least. */
const defaultSpread = 0.15;
const minSpread = 0.03;
const minTenants = 8;
const rankVariance = 1 / 12;
const refreshSpreadEvery = 64;

export class TenantTests {
  private readonly tenants: RecentMap<TenantState>;
  /** The last requests of all tenants that are not held, oldest first. */
  private recent: Passed[] = [];
  private spread = defaultSpread;
  private sinceSpread = 0;

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
    if (state.outcomes.length > maxOutcomes) forgetOldest(state, isHeld);
    if (isHeld) state.heldFor -= 1;
    for (const [cause, left] of Object.entries(state.muted)) state.muted[cause as AlertCause] = left - 1;
    const found = [
      this.testCollapsed(tenant, state, threshold),
      this.testLow(state, threshold),
      outcome.rank === null ? undefined : this.testDrift(tenant, state, threshold),
    ].filter((finding) => finding !== undefined);
    if (outcome.isCollapsed || found.length > 0) state.heldFor = heldRequests;
    if (state.heldFor === 0) this.pass({ tenant, isCollapsed: false, rank: outcome.rank });
    else if (!isHeld) this.pass({ tenant, isCollapsed: outcome.isCollapsed, rank: outcome.rank });
    const fresh = found.filter(({ cause }) => (state.muted[cause] ?? 0) <= 0);
    for (const { cause } of fresh) state.muted[cause] = repeatAfter;
    return fresh;
  }

  /** A measure was lifted: the next alert fires as soon as there is evidence again, from new requests. */
  clear(tenant: string): void {
    const state = this.tenants.peek(tenant);
    if (state === undefined) return;
    state.muted = {};
    state.outcomes = [];
  }

  save(): SavedTenants {
    const tenants = [...this.tenants.entries()].map(
      ([name, state]) => [name, structuredClone(state)] as const,
    );
    return { tenants, recent: [...this.recent] };
  }

  restore({ tenants, recent }: SavedTenants): void {
    for (const [tenant] of [...this.tenants.entries()]) this.tenants.delete(tenant);
    for (const [tenant, state] of tenants) this.tenants.set(tenant, structuredClone(state) as TenantState);
    this.recent = [...recent];
    this.measureSpread();
  }

  private testCollapsed(tenant: string, { outcomes }: TenantState, threshold: number): Finding | undefined {
    if (!hasMany(outcomes, ({ isCollapsed }) => isCollapsed)) return testTogether(outcomes);
    let others = 0;
    let collapsed = 0;
    for (const passed of this.recent) {
      if (passed.tenant === tenant) continue;
      others += 1;
      if (passed.isCollapsed) collapsed += 1;
    }
    const expected = (collapsed + prior.collapsed * prior.requests) / (others + prior.requests);
    const conclusive = outcomes.filter(({ isConclusive }) => isConclusive);
    const counted = countTail(conclusive, ({ isCollapsed }) => isCollapsed, expected, threshold);
    return counted === undefined ? testTogether(outcomes) : { cause: 'collapsed', ...counted, mean: null };
  }

  private testLow({ outcomes }: TenantState, threshold: number): Finding | undefined {
    const isLow = (outcome: Outcome): boolean => outcome.isLow || outcome.isCollapsed;
    if (!hasMany(outcomes, isLow)) return undefined;
    const ranked = outcomes.filter(({ rank, isCollapsed }) => rank !== null || isCollapsed);
    // Tenants ask for different things, so one may have twice the share of low requests without an attack.
    const counted = countTail(ranked, isLow, 2 * this.falseAlerts, threshold);
    return counted && { cause: 'low', ...counted, mean: null };
  }

  private testDrift(tenant: string, state: TenantState, threshold: number): Finding | undefined {
    const { history } = state;
    const means = meanRanks(state.outcomes);
    const highest = Math.max(0.5, history.weight > 0 ? history.mean : 0);
    // Most requests end here: no test at a small threshold can fire.
    if (threshold < 1e-3 && means.every(({ mean, chance }) => mean > highest - 3 * Math.sqrt(chance)))
      return undefined;
    const center = Math.min(0.5, this.meanRankOfOthers(tenant));
    const between = this.spread ** 2;
    const own = 1 / (1 / between + history.weight / rankVariance);
    const usual = own * (center / between + (history.mean * history.weight) / rankVariance);
    for (const { requests, mean, chance } of means) {
      // Against tenants in general too: a tenant's own past must not excuse what it sends now.
      const probability = Math.min(
        normalTail((center - mean) / Math.sqrt(chance + between)),
        normalTail((usual - mean) / Math.sqrt(chance + own)),
      );
      if (probability <= threshold) return { cause: 'drift', count: requests, requests, probability, mean };
    }
    return undefined;
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
    if (means.length < minTenants) {
      this.spread = defaultSpread;
      return;
    }
    const average = (values: readonly number[]): number =>
      values.reduce((sum, value) => sum + value, 0) / values.length;
    const center = average(means.map(({ mean }) => mean));
    const seen = average(means.map(({ mean }) => (mean - center) ** 2)) * (means.length / (means.length - 1));
    const chance = average(means.map((each) => each.chance));
    this.spread = Math.max(minSpread, Math.sqrt(Math.max(0, seen - chance)));
  }
}

const createState = (): TenantState => ({
  outcomes: [],
  history: { mean: 0.5, weight: 0 },
  heldFor: 0,
  muted: {},
});

function forgetOldest({ outcomes, history }: TenantState, isHeld: boolean): void {
  const { rank } = outcomes.shift()!;
  if (rank === null || isHeld) return;
  history.weight = Math.min(history.weight + 1, maxHistory);
  history.mean += (rank - history.mean) / history.weight;
}

function hasMany(outcomes: readonly Outcome[], isCounted: (outcome: Outcome) => boolean): boolean {
  let count = 0;
  for (const outcome of outcomes) if (isCounted(outcome)) count += 1;
  return count >= minCount;
}

/** Mean ranks of the last requests, and the variance that chance gives them. */
function meanRanks(
  outcomes: readonly Outcome[],
): readonly { readonly requests: number; readonly mean: number; readonly chance: number }[] {
  const means: { requests: number; mean: number; chance: number }[] = [];
  let requests = 0;
  let sum = 0;
  for (let index = outcomes.length - 1; index >= 0; index--) {
    const { rank } = outcomes[index]!;
    if (rank === null) continue;
    requests += 1;
    sum += rank;
    if (driftStretches.includes(requests))
      means.push({ requests, mean: sum / requests, chance: rankVariance / requests });
  }
  return means;
}

/** Requests that are too short, or too near to break-even, to be judged one by one. */
function testTogether(outcomes: readonly Outcome[]): Finding | undefined {
  const requests = Math.min(outcomes.length, maxTogether);
  if (requests < minCount) return undefined;
  let [steps, accepted, needed] = [0, 0, 0];
  for (let index = outcomes.length - requests; index < outcomes.length; index++) {
    const outcome = outcomes[index]!;
    steps += outcome.steps;
    accepted += outcome.accepted;
    needed += outcome.breakEven * outcome.steps;
  }
  if (boundLength(accepted, steps, confidence.tenant) >= needed / steps) return undefined;
  return { cause: 'collapsed', count: requests, requests, probability: 0.001, mean: 1 + accepted / steps };
}

function countTail(
  outcomes: readonly Outcome[],
  isCounted: (outcome: Outcome) => boolean,
  expected: number,
  threshold: number,
): Pick<Finding, 'count' | 'requests' | 'probability'> | undefined {
  for (const length of stretches) {
    const last = outcomes.slice(-length);
    const count = last.filter(isCounted).length;
    if (count < minCount) continue;
    const probability = binomialTail(count, last.length, expected);
    if (probability <= threshold) return { count, requests: last.length, probability };
  }
  return undefined;
}
