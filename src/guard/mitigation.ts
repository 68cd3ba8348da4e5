/**
 * What is done about alarms: a measure for one tenant on one model, taken on an alarm, probed, and lifted when probes come back
 * usual. By default nothing is done but to observe.
 *
 * While a measure hides the drafter (an upstream without speculation), every n-th request goes the usual way as a probe, the
 * first after n requests or a quiet while; n doubles with every probe that is low again. Where requests are still drafted
 * (tags, shorter drafts, a rate limit), each of them is a probe. So many usual probes in a row lift the measure. Taking
 * needs an alarm and lifting several probes, and whoever rings again soon after a lifting begins with the longer wait:
 * the state cannot flutter.
 *
 * Worst cases. Another tenant: nothing at all changes, whatever this one does. A tenant that rang falsely: it goes without
 * speculation for `probeEvery` x `probesToLift` requests, if none is low. An attacker: all requests until the alarm,
 * then one in `probeEvery`, falling to one in `longestWait`, still cost what an attacked request costs; it may behave in
 * probes only if it can tell them apart, which headers never say.
 */
import type { ActionEvent, ActionName, Alarm, AlarmCause } from './alarm.js';
import type { Verdict } from './page-state.js';
import { RecentMap } from './recent-map.js';
import { TokenBucket } from './token-bucket.js';

export interface MitigationOptions {
  /** What an alarm about a tenant leads to. */
  readonly action?: ActionName;
  /** What an alarm about everybody leads to, for everybody who uses the model. */
  readonly forEveryone?: ActionName;
  /** Alarms that count: those about tenants, or single requests already. */
  readonly from?: 'tenant' | 'request';
  readonly causes?: readonly AlarmCause[];
  /** Requests from one probe to the next, at first. */
  readonly probeEvery?: number;
  readonly longestWait?: number;
  /** A request that comes so long after the last probe is one. */
  readonly quietMs?: number;
  /** Usual probes in a row that lift a measure. */
  readonly probesToLift?: number;
  /** With the action `rate-limit`. */
  readonly requestsPerMinute?: number;
  readonly tenantLimit?: number;
}

export interface Decision {
  readonly action: ActionName;
  /** The request goes the usual way to see whether the measure is still needed. */
  readonly isProbe: boolean;
  /** To be answered with 429: the tenant has used up its rate. */
  readonly isRefused: boolean;
  readonly retryAfterMs: number;
  /** Of the measure in force, if there is any. */
  readonly alarmId: string | null;
}

interface Measure {
  readonly action: ActionName;
  readonly alarmId: string;
  readonly bucket: TokenBucket | undefined;
  wait: number;
  /** Requests since the last probe. */
  passed: number;
  probedMs: number;
  usualProbes: number;
}

const everyone = null;
const nothing: Decision = {
  ...{ action: 'observe', isProbe: false, isRefused: false, retryAfterMs: 0, alarmId: null },
};

export class Mitigation {
  private readonly options: Required<MitigationOptions>;
  private readonly measures: RecentMap<Measure>;
  /** Waits of measures that were lifted, for those who ring again. */
  private readonly waits: RecentMap<number>;

  constructor(options: MitigationOptions = {}) {
    this.options = {
      ...{ action: 'observe', forEveryone: 'observe', from: 'tenant', causes: ['collapse'] },
      ...{ probeEvery: 10, longestWait: 320, quietMs: 600_000, probesToLift: 3 },
      ...{ requestsPerMinute: 6, tenantLimit: 10_000 },
      ...options,
    };
    this.measures = new RecentMap(this.options.tenantLimit);
    this.waits = new RecentMap(this.options.tenantLimit);
  }

  get size(): number {
    return this.measures.size;
  }

  /** What an alarm leads to, if anything. */
  hear(alarm: Alarm): readonly ActionEvent[] {
    const { action, forEveryone, from, causes } = this.options;
    const { model, tenant, scope, atMs, id } = alarm;
    if (scope === 'everyone') return this.take(forEveryone, { tenant: everyone, model, alarmId: id, atMs });
    const counts = scope === 'tenant' || from === 'request';
    if (!counts || tenant === null || !causes.includes(alarm.cause)) return [];
    return this.take(action, { tenant, model, alarmId: id, atMs });
  }

  /** For a request that begins now. A measure for the tenant comes before one for everybody. */
  decide(tenant: string, model: string, atMs: number): Decision {
    const key = [keyOf(tenant, model), keyOf(everyone, model)].find((name) => this.measures.peek(name));
    const measure = key === undefined ? undefined : this.measures.get(key);
    if (measure === undefined) return nothing;
    const { action, alarmId, bucket } = measure;
    const decision = { ...nothing, action, alarmId };
    if (bucket !== undefined) {
      const retryAfterMs = bucket.take(atMs);
      return { ...decision, isRefused: retryAfterMs > 0, retryAfterMs };
    }
    if (!hidesDrafter(action)) return decision;
    measure.passed += 1;
    const { quietMs } = this.options;
    const isDue = measure.passed >= measure.wait || atMs - measure.probedMs >= quietMs;
    if (!isDue) return decision;
    Object.assign(measure, { passed: 0, probedMs: atMs });
    return { ...decision, action: 'observe', isProbe: true };
  }

  /** How a request went that was decided about; only drafted ones tell anything. */
  learn(
    decision: Decision,
    request: { readonly tenant: string; readonly model: string; readonly id: string },
    verdict: Verdict,
    atMs: number,
  ): readonly ActionEvent[] {
    const { tenant, model, id } = request;
    const own = this.measures.peek(keyOf(tenant, model));
    const target = own?.alarmId === decision.alarmId ? tenant : everyone;
    const key = keyOf(target, model);
    const measure = this.measures.peek(key);
    const isTelling = decision.isProbe || !hidesDrafter(decision.action);
    if (measure?.alarmId !== decision.alarmId || !isTelling || verdict === 'unknown') return [];
    const shared = {
      atMs,
      action: measure.action,
      tenant: target,
      model,
      requestId: id,
      alarmId: measure.alarmId,
    };
    if (verdict === 'low') {
      measure.usualProbes = 0;
      if (!decision.isProbe) return [];
      measure.wait = Math.min(2 * measure.wait, this.options.longestWait);
      const text = `A probe was low again; the next comes after ${measure.wait} requests.`;
      return [{ ...shared, change: 'probed', text }];
    }
    measure.usualProbes += 1;
    const left = this.options.probesToLift - measure.usualProbes;
    if (left > 0) {
      if (!decision.isProbe) return [];
      return [{ ...shared, change: 'probed', text: `A probe was usual; ${left} more lift the measure.` }];
    }
    this.measures.delete(key);
    this.waits.set(key, Math.min(2 * measure.wait, this.options.longestWait));
    const text = `${this.options.probesToLift} requests in a row were usual; ${measure.action} is lifted.`;
    return [{ ...shared, change: 'lifted', text }];
  }

  /** By hand. */
  lift(tenant: string | null, model: string, atMs: number): readonly ActionEvent[] {
    const key = keyOf(tenant, model);
    const measure = this.measures.peek(key);
    if (measure === undefined) return [];
    this.measures.delete(key);
    const { action, alarmId } = measure;
    const text = `${action} is lifted by hand.`;
    return [{ atMs, action, change: 'lifted', tenant, model, requestId: null, alarmId, text }];
  }

  /** Measures in force. */
  list(): readonly { readonly tenant: string | null; readonly model: string; readonly action: ActionName }[] {
    return [...this.measures.entries()].map(([key, { action }]) => {
      const [model, tenant = null] = JSON.parse(key) as readonly [string, string?];
      return { tenant, model, action };
    });
  }

  private take(
    action: ActionName,
    target: {
      readonly tenant: string | null;
      readonly model: string;
      readonly alarmId: string;
      readonly atMs: number;
    },
  ): readonly ActionEvent[] {
    const { tenant, model, alarmId, atMs } = target;
    const key = keyOf(tenant, model);
    const { probeEvery, requestsPerMinute } = this.options;
    if (action === 'observe' || this.measures.peek(key) !== undefined) return [];
    this.measures.set(key, {
      ...{ action, alarmId, passed: 0, probedMs: atMs, usualProbes: 0 },
      wait: this.waits.peek(key) ?? probeEvery,
      bucket: action === 'rate-limit' ? new TokenBucket(requestsPerMinute, 60_000) : undefined,
    });
    const whom = tenant === null ? 'everybody' : 'one tenant';
    const text = `${action} for ${whom} on this model, until probes are usual again.`;
    return [{ atMs, action, change: 'taken', tenant, model, requestId: null, alarmId, text }];
  }
}

/** Whether requests under it say nothing about the drafter. */
function hidesDrafter(action: ActionName): boolean {
  return action === 'plain-upstream' || action === 'switch-drafter';
}

/** Model first: an alarm about everybody has no tenant, and no tenant's name can stand for that. */
const keyOf = (tenant: string | null, model: string): string =>
  JSON.stringify(tenant === null ? [model] : [model, tenant]);
