/**
 * The test over a tenant's requests: many that are a little too low, or too short to ring alone.
 *
 * A finished request gives a factor whose mean over benign requests is at most 1: its evidence at its end (sequential-test.ts),
 * cut at `mostOfOne` and divided by what the few requests below the floors could add to that mean. Of a tenant's
 * factors e a running sum of products is kept, R <- (R + 1) e, which is the sum of the evidence that something began
 * at each of its requests (the Shiryaev-Roberts form of an e-detector: Shin, Ramdas and Rinaldo, arXiv 2203.03532). With every request
 * the mean of R grows by at most 1. Let a tenant ring when R reaches a threshold c and begin again at 0; then
 *
 *   R + c x (alarms so far) - (requests so far)
 *
 * never grows on average, so that among n requests of all tenants together at most n / c false alarms are expected. With c
 * as many requests as a week brings, divided by the false alarms that the operator allows a week, that is the promise. Tenants
 * that were forgotten begin at 0 and ring later, never sooner.
 *
 * It is a promise about requests like those of the baseline. A tenant all of whose requests are unlike anybody's rings,
 * and `causes.ts` has to say why.
 */
import { RecentMap } from './recent-map.js';
import type { AlarmLevels } from './sequential-test.js';

export const mostOfOne = 50;

/** A request's evidence as a factor that may be multiplied with those of others. */
export function limitEvidence(evidence: number, { lowShare }: Pick<AlarmLevels, 'lowShare'>): number {
  return Math.min(evidence, mostOfOne) / (1 + lowShare * mostOfOne);
}

/** How many requests a week brings, from those that came; with every week, what came before it counts half. */
export class TrafficRate {
  private requests = 0;
  private firstMs: number | undefined;
  private lastMs = 0;

  constructor(private readonly leastPerWeek: number) {}

  count(atMs: number): void {
    this.firstMs ??= atMs;
    const passedMs = Math.max(0, atMs - Math.max(this.lastMs, this.firstMs));
    this.requests = this.requests * 2 ** (-passedMs / weekMs) + 1;
    this.lastMs = Math.max(this.lastMs, atMs);
  }

  save(): SavedTraffic {
    return { requests: this.requests, firstMs: this.firstMs ?? null, lastMs: this.lastMs };
  }

  restore({ requests, firstMs, lastMs }: SavedTraffic): void {
    Object.assign(this, { requests, firstMs: firstMs ?? undefined, lastMs });
  }

  get perWeek(): number {
    const seenMs = this.firstMs === undefined ? 0 : this.lastMs - this.firstMs;
    // Steady traffic leaves this part of a week's requests.
    const remembered = (1 - 2 ** (-seenMs / weekMs)) / Math.LN2;
    return remembered < hourMs / weekMs
      ? this.leastPerWeek
      : Math.max(this.leastPerWeek, this.requests / remembered);
  }
}

export interface SavedTraffic {
  readonly requests: number;
  readonly firstMs: number | null;
  readonly lastMs: number;
}

const weekMs = 604_800_000;
const hourMs = 3_600_000;

export interface TenantStanding {
  /** R; the alarm rings when it reaches the threshold. */
  evidence: number;
  requests: number;
  /** Of the requests since the evidence last stood at nearly nothing. */
  steps: number;
  accepted: number;
  since: number;
  /** Nothing is learnt from this tenant before so many requests of it are over. */
  heldUntil: number;
}

export interface TenantAlarm {
  readonly evidence: number;
  readonly requests: number;
  readonly steps: number;
  readonly accepted: number;
}

/** Requests for which a tenant that rang teaches nothing. */
const heldRequests = 32;

export class TenantTest {
  private tenants: RecentMap<TenantStanding>;

  constructor(readonly limit: number) {
    this.tenants = new RecentMap(limit);
  }

  get size(): number {
    return this.tenants.size;
  }

  /** Whether a request of this tenant, or the tenant itself, rang a short while ago. */
  isHeld(tenant: string): boolean {
    const standing = this.tenants.peek(tenant);
    return standing !== undefined && standing.requests < standing.heldUntil;
  }

  /** One of its requests rang. */
  hold(tenant: string): void {
    const standing = this.standingOf(tenant);
    standing.heldUntil = standing.requests + heldRequests;
  }

  /** A judged request has ended. */
  learn(
    tenant: string,
    factor: number,
    counts: { readonly steps: number; readonly accepted: number },
    threshold: number,
  ): TenantAlarm | undefined {
    const standing = this.standingOf(tenant);
    if (standing.evidence < faint)
      Object.assign(standing, { steps: 0, accepted: 0, since: standing.requests });
    standing.requests += 1;
    standing.steps += counts.steps;
    standing.accepted += counts.accepted;
    standing.evidence = (standing.evidence + 1) * factor;
    if (standing.evidence < threshold) return undefined;
    const { evidence, steps, accepted, since } = standing;
    const requests = standing.requests - since;
    Object.assign(standing, { evidence: 0, heldUntil: standing.requests + heldRequests });
    return { evidence, requests, steps, accepted };
  }

  save(): readonly (readonly [string, TenantStanding])[] {
    return [...this.tenants.entries()].map(([tenant, standing]) => [tenant, { ...standing }] as const);
  }

  restore(saved: readonly (readonly [string, TenantStanding])[]): void {
    this.tenants = new RecentMap(this.limit);
    for (const [tenant, standing] of saved) this.tenants.set(tenant, { ...standing });
  }

  private standingOf(tenant: string): TenantStanding {
    return this.tenants.getOrCreate(tenant, () => ({
      ...{ evidence: 0, requests: 0, steps: 0, accepted: 0, since: 0, heldUntil: 0 },
    }));
  }
}

/** Below this, what was seen before no longer plays a part. */
const faint = 1;
