/**
 * The tests over requests, of a tenant and of everybody, and the alarms that they ring. Both share what the operator
 * allows a week, half for each.
 */
import type { Alarm } from './alarm.js';
import { describeEveryoneAlarm, describeTenantAlarm } from './alarm-text.js';
import type { Expectation } from './baseline.js';
import { findCause } from './causes.js';
import type { EveryoneAlarm, SavedEveryone } from './everyone-test.js';
import { EveryoneTest } from './everyone-test.js';
import type { UnlikelyTail } from './prompt-tail.js';
import type { RequestCounts } from './request-counts.js';
import type { RequestRecord } from './request-record.js';
import type { SavedLevels } from './tenant-levels.js';
import { TenantLevels } from './tenant-levels.js';
import type { SavedStanding, TenantAlarm } from './tenant-test.js';
import { TenantTest } from './tenant-test.js';
import type { SavedTraffic } from './traffic-rate.js';
import { TrafficRate } from './traffic-rate.js';

export interface GroupOptions {
  readonly falseAlarmsPerWeek: number;
  readonly leastRequestsPerWeek: number;
  readonly tenantLimit: number;
}

/** A request that was judged. */
export interface JudgedRequest {
  readonly record: RequestRecord;
  readonly counts: RequestCounts;
  readonly evidence: number;
  /** The evidence as it may be multiplied. */
  readonly factor: number;
  /** Undefined where the end of its prompt is a usual one. */
  readonly findTail: () => UnlikelyTail | undefined;
}

export interface SavedGroups {
  readonly tenants: readonly (readonly [string, SavedStanding])[];
  readonly levels: SavedLevels;
  readonly everyone: readonly (readonly [string, SavedEveryone])[];
  readonly traffic: SavedTraffic;
}

type Unnumbered = Omit<Alarm, 'id'>;

export class GroupTests {
  readonly tenants: TenantTest;
  private readonly levels: TenantLevels;
  readonly everyone = new EveryoneTest();
  private readonly traffic: TrafficRate;
  private readonly perWeek: number;

  constructor({ falseAlarmsPerWeek, leastRequestsPerWeek, tenantLimit }: GroupOptions) {
    this.perWeek = falseAlarmsPerWeek;
    this.tenants = new TenantTest(tenantLimit);
    this.levels = new TenantLevels(tenantLimit);
    this.traffic = new TrafficRate(leastRequestsPerWeek);
  }

  learn(request: JudgedRequest, expectation: Expectation): Unnumbered[] {
    const { record, counts, factor, evidence } = request;
    const { model, tenant, endedMs } = record;
    this.traffic.count(endedMs);
    const threshold = (2 * this.traffic.perWeek) / this.perWeek;
    const everyone = this.everyone.learn(model, tenant, { ...counts, factor, evidence }, threshold);
    const { steps, accepted } = counts;
    const rank = expectation.isSharp ? rankOf(counts, expectation) : undefined;
    const floor = this.levels.floor(tenant);
    const level = rank === undefined || floor === undefined ? undefined : { rank, floor };
    if (rank !== undefined) this.levels.see(tenant, rank);
    const low = this.tenants.learn(tenant, { steps, accepted, factor, level }, threshold);
    const alarms: Unnumbered[] = [];
    if (low !== undefined) {
      const alarm = this.describeTenant(request, expectation, { ...low, floor });
      this.levels.forget(tenant);
      if (low.meanRank !== undefined && alarm.cause === 'hard-text') this.tenants.acquit(tenant);
      alarms.push(alarm);
    }
    if (everyone !== undefined) alarms.push(describeEveryone(request, expectation, everyone));
    return alarms;
  }

  /** From a request that the baseline learns from, too. */
  learnLevel({ tenant }: RequestRecord, counts: RequestCounts, expectation: Expectation): void {
    if (expectation.isSharp && !this.tenants.hasLowLevel(tenant))
      this.levels.learn(tenant, rankOf(counts, expectation));
  }

  save(): SavedGroups {
    return {
      ...{ tenants: this.tenants.save(), levels: this.levels.save() },
      ...{ everyone: this.everyone.save(), traffic: this.traffic.save() },
    };
  }

  restore({ tenants, levels, everyone, traffic }: SavedGroups): void {
    this.tenants.restore(tenants);
    this.levels.restore(levels);
    this.everyone.restore(everyone);
    this.traffic.restore(traffic);
  }

  private describeTenant(
    { record, counts, findTail }: JudgedRequest,
    expectation: Expectation,
    low: TenantAlarm & { readonly floor: number | undefined },
  ): Unnumbered {
    const { model, route, tenant, endedMs } = record;
    const { evidence, requests, steps, accepted, meanRank, floor: rankFloor } = low;
    const length = { seen: 1 + accepted / steps, steps, expected: expectation.band() };
    const { cause, because } = findCause({
      ...{ side: 'low', isWide: this.everyone.isWide(model), acceptedAtFirst: null },
      share: counts.sums[0]! / counts.steps,
      floor: expectation.hypothesis.floors[0]!,
      accepted: accepted / steps,
      ...{ promptTokens: null, longPrompt: undefined, likeness: undefined },
      tail: findTail(),
      level: meanRank === undefined || rankFloor === undefined ? undefined : { meanRank, floor: rankFloor },
    });
    return {
      ...{ model, route, atMs: endedMs, scope: 'tenant', cause, tenant, requestId: null, eValue: evidence },
      ...length,
      text: describeTenantAlarm(length, requests, evidence, because),
    };
  }
}

const rankOf = ({ steps, accepted }: RequestCounts, expectation: Expectation): number =>
  expectation.rank({ length: 1 + accepted / steps, steps });

function describeEveryone(
  { record }: JudgedRequest,
  expectation: Expectation,
  { evidence, steps, accepted, share, tenants }: EveryoneAlarm,
): Unnumbered {
  const { model, route, endedMs } = record;
  const length = { seen: 1 + accepted / steps, steps, expected: expectation.band() };
  return {
    ...{ model, route, atMs: endedMs, scope: 'everyone', cause: 'drafter-down', tenant: null },
    ...{ requestId: null, eValue: evidence },
    ...length,
    text: describeEveryoneAlarm(length, share, tenants, evidence),
  };
}
