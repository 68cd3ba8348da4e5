/**
 * The test over everybody who uses a model: a drafter that died or was deployed wrongly. Its evidence is collected as that of
 * a tenant is (tenant-test.ts), with the same promise. But one tenant that sends most of the requests must not be everybody:
 * the alarm rings only while at least half of the tenants seen lately have a low latest request. Where fewer than
 * three tenants are known (all traffic under one name), four fifths of the latest requests have to be low instead; an
 * attack that makes up as much of one tenant's traffic looks the same, and nothing in the data tells them apart.
 */
import { RecentMap } from './recent-map.js';

export interface EveryoneAlarm {
  readonly evidence: number;
  readonly steps: number;
  readonly accepted: number;
  readonly requests: number;
  /** The share of tenants, or of requests, that are affected. */
  readonly share: number;
  readonly tenants: number;
}

export interface SavedEveryone {
  readonly evidence: number;
  readonly requests: number;
  readonly steps: number;
  readonly accepted: number;
  readonly latest: readonly (readonly [string, boolean])[];
  readonly recent: readonly boolean[];
}

interface Standing {
  evidence: number;
  requests: number;
  steps: number;
  accepted: number;
  /** Latest request of each tenant: whether it was low. */
  readonly latest: RecentMap<boolean>;
  /** Of the latest requests, oldest first. */
  readonly recent: boolean[];
}

const mostModels = 64;
const latestTenants = 64;
const latestRequests = 32;
const leastTenants = 3;
const shareOfTenants = 0.5;
const shareOfRequests = 0.8;
/** Evidence, as a factor, from which a request counts as low here. */
export const lowEvidence = 5;

export class EveryoneTest {
  private models = new RecentMap<Standing>(mostModels);

  learn(
    model: string,
    tenant: string,
    request: {
      readonly factor: number;
      readonly evidence: number;
      readonly steps: number;
      readonly accepted: number;
    },
    threshold: number,
  ): EveryoneAlarm | undefined {
    const standing = this.models.getOrCreate(model, createStanding);
    if (standing.evidence < 1) Object.assign(standing, { steps: 0, accepted: 0, requests: 0 });
    const isLow = request.evidence >= lowEvidence;
    standing.latest.set(tenant, isLow);
    standing.recent.push(isLow);
    if (standing.recent.length > latestRequests) standing.recent.shift();
    standing.requests += 1;
    standing.steps += request.steps;
    standing.accepted += request.accepted;
    standing.evidence = Math.min((standing.evidence + 1) * request.factor, mostEvidence);
    if (standing.evidence < threshold || !this.isWide(model)) return undefined;
    const { evidence, steps, accepted, requests } = standing;
    standing.evidence = 0;
    return {
      evidence,
      steps,
      accepted,
      requests,
      share: this.shareLow(model),
      tenants: standing.latest.size,
    };
  }

  /** After a change of its drafter or deployment. */
  forget(model: string): void {
    this.models.delete(model);
  }

  save(): readonly (readonly [string, SavedEveryone])[] {
    return [...this.models.entries()].map(([model, standing]) => {
      const { latest, recent, ...sums } = standing;
      return [model, { ...sums, latest: [...latest.entries()], recent: [...recent] }] as const;
    });
  }

  restore(saved: readonly (readonly [string, SavedEveryone])[]): void {
    this.models = new RecentMap(mostModels);
    for (const [model, { latest, recent, ...sums }] of saved) {
      const standing = { ...createStanding(), ...sums, recent: recent.slice(-latestRequests) };
      for (const [tenant, isLow] of latest) standing.latest.set(tenant, isLow);
      this.models.set(model, standing);
    }
  }

  /** Whether so many are low now that no single tenant can be the reason. */
  isWide(model: string): boolean {
    const standing = this.models.peek(model);
    if (standing === undefined) return false;
    const { latest, recent } = standing;
    if (latest.size >= leastTenants) return this.shareLow(model) >= shareOfTenants;
    return recent.length === latestRequests && this.shareLow(model) >= shareOfRequests;
  }

  shareLow(model: string): number {
    const standing = this.models.peek(model);
    if (standing === undefined) return 0;
    const { latest, recent } = standing;
    const lows = latest.size >= leastTenants ? [...latest.entries()].map(([, isLow]) => isLow) : recent;
    return lows.length === 0 ? 0 : lows.filter(Boolean).length / lows.length;
  }
}

/** A single tenant's attack would let it grow without end while the alarm may not ring. */
const mostEvidence = 1e12;

const createStanding = (): Standing => ({
  ...{ evidence: 0, requests: 0, steps: 0, accepted: 0 },
  latest: new RecentMap(latestTenants),
  recent: [],
});
