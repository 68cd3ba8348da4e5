/**
 * The tests over requests, of a tenant and of everybody, and the alarms that they ring. Both share what the operator
 * allows a week, half for each.
 */
import type { Alarm } from './alarm.js';
import { describeEveryoneAlarm, describeTenantAlarm } from './alarm-text.js';
import type { Expectation } from './baseline.js';
import { findCause } from './causes.js';
import { EveryoneTest } from './everyone-test.js';
import type { RequestCounts } from './request-counts.js';
import type { RequestRecord } from './request-record.js';
import type { SavedTraffic, TenantStanding } from './tenant-test.js';
import { TenantTest, TrafficRate } from './tenant-test.js';

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
}

export interface SavedGroups {
  readonly tenants: readonly (readonly [string, TenantStanding])[];
  readonly traffic: SavedTraffic;
}

type Unnumbered = Omit<Alarm, 'id'>;

export class GroupTests {
  readonly tenants: TenantTest;
  readonly everyone = new EveryoneTest();
  private readonly traffic: TrafficRate;
  private readonly perWeek: number;

  constructor({ falseAlarmsPerWeek, leastRequestsPerWeek, tenantLimit }: GroupOptions) {
    this.perWeek = falseAlarmsPerWeek;
    this.tenants = new TenantTest(tenantLimit);
    this.traffic = new TrafficRate(leastRequestsPerWeek);
  }

  learn(request: JudgedRequest, expectation: Expectation): Unnumbered[] {
    const { record, counts, factor, evidence } = request;
    const { model, tenant, endedMs } = record;
    this.traffic.count(endedMs);
    const threshold = (2 * this.traffic.perWeek) / this.perWeek;
    const everyone = this.everyone.learn(model, tenant, { ...counts, factor, evidence }, threshold);
    const low = this.tenants.learn(tenant, factor, counts, threshold);
    return [
      ...(low === undefined ? [] : [this.describeTenant(request, expectation, low)]),
      ...(everyone === undefined ? [] : [describeEveryone(request, expectation, everyone)]),
    ];
  }

  save(): SavedGroups {
    return { tenants: this.tenants.save(), traffic: this.traffic.save() };
  }

  restore({ tenants, traffic }: SavedGroups): void {
    this.tenants.restore(tenants);
    this.traffic.restore(traffic);
  }

  private describeTenant(
    { record, counts }: JudgedRequest,
    expectation: Expectation,
    { evidence, requests, steps, accepted }: NonNullable<ReturnType<TenantTest['learn']>>,
  ): Unnumbered {
    const { model, route, tenant, endedMs } = record;
    const length = { seen: 1 + accepted / steps, steps, expected: expectation.band() };
    const { cause, because } = findCause({
      ...{ side: 'low', isWide: this.everyone.isWide(model), acceptedAtFirst: null },
      share: counts.sums[0]! / counts.steps,
      floor: expectation.hypothesis.floors[0]!,
      accepted: accepted / steps,
      ...{ promptTokens: null, longPrompt: undefined, likeness: undefined },
    });
    return {
      ...{ model, route, atMs: endedMs, scope: 'tenant', cause, tenant, requestId: null, eValue: evidence },
      ...length,
      text: describeTenantAlarm(length, requests, evidence, because),
    };
  }
}

function describeEveryone(
  { record }: JudgedRequest,
  expectation: Expectation,
  { evidence, steps, accepted, share, tenants }: NonNullable<ReturnType<EveryoneTest['learn']>>,
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
