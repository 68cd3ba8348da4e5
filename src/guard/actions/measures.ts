/**
 * What follows from alerts: a measure for one tenant, or for all, applied on an alert, probed, and lifted when probes come
 * back good. It follows from observations alone, so that guards which share their observations agree on it; only when to
 * probe is decided by each guard.
 *
 * While a measure hides the drafter, every n-th request is drafted as usual as a probe, or one after a quiet time; n doubles
 * with every bad probe. Where requests are still drafted (shorter drafts, a rate limit), each is a probe. Several good
 * probes in a row lift the measure, and a tenant that is measured again soon starts with the longer wait.
 */
import type { ActionName, Observation } from '../observation.js';
import { RecentMap } from '../state/recent-map.js';
import type { ActionEvent, Alert, AlertCause, Decision } from '../judge/verdict.js';
import { TokenBucket } from './token-bucket.js';

export interface MeasureOptions {
  /** What an alert about a tenant leads to; undefined only reports. */
  readonly action?: ActionName | undefined;
  /** What an alert about all tenants leads to. */
  readonly forEveryone?: ActionName | undefined;
  readonly causes?: readonly AlertCause[];
  /** Requests from one probe to the next, at first and at most. */
  readonly probeEvery?: number;
  readonly maxProbeEvery?: number;
  /** A request that comes this long after the last probe is one. */
  readonly quietMs?: number;
  /** Good probes in a row that lift a measure. */
  readonly probesToLift?: number;
  /** With the action `rate-limit`. */
  readonly requestsPerMinute?: number;
  /** With the action `shorter-drafts`. */
  readonly draftLength?: number;
  /** With the action `switch-drafter`; null for none. */
  readonly drafter?: string | null;
  readonly tenantLimit?: number;
}

/** How a drafted request went. */
export type ProbeResult = 'good' | 'bad' | 'inconclusive';

export interface SavedMeasure {
  readonly action: ActionName;
  readonly alertId: string;
  readonly wait: number;
  readonly goodProbes: number;
  readonly sinceMs: number;
}

/** What each guard keeps for itself. */
interface Probing {
  passed: number;
  probedMs: number;
  readonly bucket: TokenBucket;
}

const everyone = null;

export class Measures {
  private readonly options: Required<MeasureOptions>;
  private readonly measures: RecentMap<SavedMeasure>;
  private readonly probing: RecentMap<Probing>;
  /** Waits of measures that were lifted. */
  private readonly waits: RecentMap<number>;

  constructor(options: MeasureOptions = {}) {
    this.options = {
      ...{ action: undefined, forEveryone: undefined, causes: ['collapsed', 'drafter-down'] },
      ...{ probeEvery: 10, maxProbeEvery: 320, quietMs: 600_000, probesToLift: 3 },
      ...{ requestsPerMinute: 6, draftLength: 1, drafter: null, tenantLimit: 10_000 },
      ...options,
    };
    this.measures = new RecentMap(this.options.tenantLimit);
    this.probing = new RecentMap(this.options.tenantLimit);
    this.waits = new RecentMap(this.options.tenantLimit);
  }

  get size(): number {
    return this.measures.size;
  }

  /** For a request that begins now. A tenant's own measure comes before one for all. */
  decide(tenant: string, atMs: number): Decision {
    if (this.measures.size === 0) return { kind: 'none' };
    const key = [keyOf(tenant), keyOf(everyone)].find((name) => this.measures.peek(name) !== undefined);
    if (key === undefined) return { kind: 'none' };
    const { action, wait, sinceMs } = this.measures.get(key)!;
    const { requestsPerMinute, draftLength, drafter, quietMs } = this.options;
    const own = this.probing.getOrCreate(key, () => ({
      ...{ passed: 0, probedMs: sinceMs },
      bucket: new TokenBucket(requestsPerMinute, 60_000),
    }));
    if (action === 'rate-limit') {
      const retryAfterMs = own.bucket.take(atMs);
      return retryAfterMs > 0 ? { kind: 'refuse', retryAfterMs } : { kind: 'probe', measure: action };
    }
    if (action === 'shorter-drafts') return { kind: action, draftLength };
    own.passed += 1;
    if (own.passed >= wait || atMs - own.probedMs >= quietMs) {
      Object.assign(own, { passed: 0, probedMs: atMs });
      return { kind: 'probe', measure: action };
    }
    return action === 'switch-drafter' ? { kind: action, drafter } : { kind: action };
  }

  /** What alerts lead to. */
  apply(alert: Alert): readonly ActionEvent[] {
    const { action: forTenant, forEveryone, causes, probeEvery } = this.options;
    const { tenant, model, atMs, id, requestId } = alert;
    const action = tenant === everyone ? forEveryone : forTenant;
    const key = keyOf(tenant);
    if (action === undefined || !causes.includes(alert.cause) || this.measures.peek(key) !== undefined)
      return [];
    const wait = this.waits.peek(key) ?? probeEvery;
    this.measures.set(key, { action, alertId: id, wait, goodProbes: 0, sinceMs: atMs });
    this.probing.delete(key);
    const whom = tenant === everyone ? 'all tenants' : 'this tenant';
    const text = `${action} applies to ${whom} until ${this.options.probesToLift} probes in a row are good.`;
    return [{ atMs, action, change: 'applied', tenant, model, requestId, alertId: id, text }];
  }

  /** A request that was drafted while a measure was in force. */
  learn(observation: Observation, result: ProbeResult): readonly ActionEvent[] {
    const { tenant, model, id, endedMs, measure: during } = observation;
    if (during === undefined || result === 'inconclusive') return [];
    const whom = this.measures.peek(keyOf(tenant)) === undefined ? everyone : tenant;
    const key = keyOf(whom);
    const measure = this.measures.peek(key);
    if (measure?.action !== during) return [];
    const { maxProbeEvery, probesToLift } = this.options;
    const longer = Math.min(2 * measure.wait, maxProbeEvery);
    if (result === 'bad') {
      this.measures.set(key, { ...measure, goodProbes: 0, wait: longer });
      return [];
    }
    const goodProbes = measure.goodProbes + 1;
    if (goodProbes < probesToLift) {
      this.measures.set(key, { ...measure, goodProbes });
      return [];
    }
    this.measures.delete(key);
    this.waits.set(key, longer);
    const text = `${during} is lifted after ${probesToLift} good probes in a row.`;
    const { alertId } = measure;
    return [
      { atMs: endedMs, action: during, change: 'lifted', tenant: whom, model, requestId: id, alertId, text },
    ];
  }

  /** Measures in force. */
  list(): readonly { readonly tenant: string | null; readonly action: ActionName }[] {
    return [...this.measures.entries()].map(([key, { action }]) => ({ tenant: tenantOf(key), action }));
  }

  save(): readonly (readonly [string, SavedMeasure])[] {
    return [...this.measures.entries()];
  }

  restore(saved: readonly (readonly [string, SavedMeasure])[]): void {
    for (const [key] of [...this.measures.entries()]) this.measures.delete(key);
    for (const [key, measure] of saved) this.measures.set(key, measure);
  }
}

/** No tenant's name can stand for all of them. */
const keyOf = (tenant: string | null): string => (tenant === null ? '*' : `=${tenant}`);
const tenantOf = (key: string): string | null => (key === '*' ? null : key.slice(1));
