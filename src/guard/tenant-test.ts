/**
 * The test over a tenant's requests: many that are a little too low, or too short to ring alone. It collects two kinds of evidence.
 *
 * Collapse. A finished request gives a factor whose mean over benign requests is at most 1: its evidence at its end
 * (sequential-test.ts), cut at `mostOfOne` and divided by what the few requests below the floors could add to that mean.
 *
 * Level. Where each request is usual and all of them are low, their ranks u among benign requests tell (rank-table.ts). Against a floor m of
 * the tenant's mean rank (tenant-levels.ts) a request gives the factors 1 + b (m - u), one for each of several bets b
 * of at most 1 / (1 - m): never below 0, and at most 1 on average as long as the mean of u, given all before it, keeps to m
 * (the bets of Waudby-Smith and Ramdas, arXiv 2010.09686).
 *
 * Of a tenant's factors e of each kind a running sum of products is kept, R <- (R + 1) e, which is the sum of the evidence that
 * something began at each of its requests (the Shiryaev-Roberts form of an e-detector: Shin, Ramdas and Rinaldo, arXiv 2203.03532).
 * With every request the mean of R grows by at most 1, and so does a mean of several R: half for collapse, half
 * for the bets on the level. Let a tenant ring when this mean R reaches a threshold c and begin again at 0; then
 *
 *   R + c x (alarms so far) - (requests so far)
 *
 * never grows on average, so that among n requests of all tenants together at most n / c false alarms are expected. With c
 * as many requests as a week brings, divided by the false alarms that the operator allows a week, that is the promise, whenever
 * one looks. Tenants that were forgotten begin at 0 and ring later, never sooner.
 *
 * It is a promise about requests like those of the baseline, and about tenants that keep to their floor. A tenant all of whose
 * requests are unlike anybody's rings, and `causes.ts` has to say why.
 */
import { RecentMap } from './recent-map.js';
import type { AlarmLevels } from './sequential-test.js';

export const mostOfOne = 50;

/** A request's evidence as a factor that may be multiplied with those of others. */
export function limitEvidence(evidence: number, { lowShare }: Pick<AlarmLevels, 'lowShare'>): number {
  return Math.min(evidence, mostOfOne) / (1 + lowShare * mostOfOne);
}

export interface LowStretch {
  readonly requests: number;
  readonly steps: number;
  readonly accepted: number;
  /** Summed. */
  readonly ranks: number;
}

export interface TenantStanding {
  /** R of the collapse. */
  evidence: number;
  /** [bet] R of the level. */
  bets: number[];
  requests: number;
  /** Of the requests since the evidence last stood at nearly nothing. */
  steps: number;
  accepted: number;
  since: number;
  /** Of the requests since the highest bet last stood at nearly nothing. */
  low: LowStretch;
  /** Alarms about its level that were taken for hard text, and the requests before which there is no further one. */
  told: number;
  silentUntil: number;
  /** Nothing is learnt from this tenant before so many requests of it are over. */
  heldUntil: number;
}

export interface TenantAlarm {
  readonly evidence: number;
  readonly requests: number;
  readonly steps: number;
  readonly accepted: number;
  /** Of its requests, where it is their level that rang. */
  readonly meanRank: number | undefined;
}

/** A judged request that has ended. */
export interface TenantRequest {
  readonly steps: number;
  readonly accepted: number;
  /** Its evidence of a collapse, as it may be multiplied. */
  readonly factor: number;
  /** Undefined while it is not known how tenants differ. */
  readonly level: { readonly rank: number; readonly floor: number } | undefined;
}

/** Parts of the highest bet: for a level a little below the floor, and for one far below. */
const betParts = [0.3, 0.6, 0.95];

export type SavedStanding = Readonly<Omit<TenantStanding, 'bets'>> & { readonly bets: readonly number[] };

const noBets: readonly number[] = betParts.map(() => 0);
export const nothingLow: LowStretch = { requests: 0, steps: 0, accepted: 0, ranks: 0 };

/** Requests for which a tenant that rang teaches nothing. */
const heldRequests = 32;
/** Requests without a word about a level that was taken for hard text. */
const firstSilence = 50;
const longestSilence = 3200;

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

  learn(
    tenant: string,
    { steps, accepted, factor, level }: TenantRequest,
    threshold: number,
  ): TenantAlarm | undefined {
    const standing = this.standingOf(tenant);
    if (standing.evidence < faint)
      Object.assign(standing, { steps: 0, accepted: 0, since: standing.requests });
    standing.requests += 1;
    standing.steps += steps;
    standing.accepted += accepted;
    standing.evidence = (standing.evidence + 1) * factor;
    if (standing.requests > standing.silentUntil + longestSilence) standing.told = 0;
    if (level !== undefined && standing.requests > standing.silentUntil) {
      const { rank, floor } = level;
      const low = standing.bets.at(-1)! < faint ? nothingLow : standing.low;
      standing.low = {
        ...{ requests: low.requests + 1, ranks: low.ranks + rank },
        ...{ steps: low.steps + steps, accepted: low.accepted + accepted },
      };
      standing.bets = standing.bets.map(
        (evidence, bet) => (evidence + 1) * (1 + (betParts[bet]! / (1 - floor)) * (floor - rank)),
      );
    }
    const ofLevel = standing.bets.reduce((sum, evidence) => sum + evidence, 0) / betParts.length;
    const evidence = (standing.evidence + ofLevel) / 2;
    return evidence < threshold ? undefined : ring(standing, evidence, ofLevel > standing.evidence);
  }

  /** Whether its level rang, and has not been usual for long since: it is no example of what tenants are like. */
  hasLowLevel(tenant: string): boolean {
    return (this.tenants.peek(tenant)?.told ?? 0) > 0;
  }

  /** An alarm about its level was taken for hard text: that is said ever more rarely of a tenant that stays as it is. */
  acquit(tenant: string): void {
    const standing = this.standingOf(tenant);
    standing.silentUntil = standing.requests + Math.min(firstSilence * 2 ** standing.told, longestSilence);
    standing.told += 1;
  }

  save(): readonly (readonly [string, TenantStanding])[] {
    return [...this.tenants.entries()].map(([tenant, standing]) => [tenant, { ...standing }] as const);
  }

  restore(saved: readonly (readonly [string, SavedStanding])[]): void {
    this.tenants = new RecentMap(this.limit);
    for (const [tenant, standing] of saved)
      this.tenants.set(tenant, { ...standing, bets: noBets.map((none, bet) => standing.bets[bet] ?? none) });
  }

  private standingOf(tenant: string): TenantStanding {
    return this.tenants.getOrCreate(tenant, () => ({
      ...{ evidence: 0, bets: [...noBets], requests: 0, steps: 0, accepted: 0 },
      ...{ since: 0, heldUntil: 0, low: nothingLow, told: 0, silentUntil: 0 },
    }));
  }
}

/** Below this, what was seen before no longer plays a part. */
const faint = 1;

function ring(standing: TenantStanding, evidence: number, isLevel: boolean): TenantAlarm {
  const { steps, accepted, since, low } = standing;
  const requests = standing.requests - since;
  Object.assign(standing, { evidence: 0, bets: [...noBets], heldUntil: standing.requests + heldRequests });
  return isLevel
    ? { ...low, evidence, meanRank: low.ranks / low.requests }
    : { evidence, requests, steps, accepted, meanRank: undefined };
}
