/**
 * What follows from alerts: a measure for one tenant, or for all. It follows from observations alone, so that guards which
 * share their observations agree on it; only when to probe is decided by each guard.
 *
 * While a measure hides the drafter, every n-th request is drafted as usual as a probe, or one after a quiet time; n doubles
 * with every bad probe. Where requests are still drafted (shorter drafts, a rate limit), each is a probe. Several good
 * probes in a row lift the measure.
 */
import type { GuardConfiguration } from '../guard-config.js';
import type { ActionName, Observation } from '../observation.js';
import { RecentMap } from '../state/recent-map.js';
import type { ActionEvent, Alert, AlertCause, Decision } from '../judge/verdict.js';

type Mitigation = GuardConfiguration['mitigation'];

export interface MeasureOptions extends Partial<Mitigation> {
  readonly maxProbeEvery?: number;
  /** A request that comes this long after the last probe is one. */
  readonly quietMs?: number;
  readonly tenantLimit?: number;
}

const defaults = {
  action: 'observe',
  forEveryone: 'observe',
  probeEvery: 10,
  maxProbeEvery: 320,
  quietMs: 600_000,
  probesToLift: 3,
  requestsPerMinute: 6,
  draftLength: 1,
  tenantLimit: 10_000,
} as const;

export interface Measure {
  readonly action: Exclude<Mitigation['action'], 'observe'>;
  readonly alertId: string;
  readonly wait: number;
  readonly goodProbes: number;
  readonly sinceMs: number;
}

/** What each guard keeps for itself. */
interface Probing {
  passed: number;
  probedMs: number;
  /** Requests that a rate limit lets pass now; they refill steadily. */
  allowed: number;
  countedMs: number;
}

const minuteMs = 60_000;
const causes: readonly AlertCause[] = ['collapsed', 'drafter-down'];
const everyone = null;

export class Measures {
  private readonly options: Required<MeasureOptions>;
  private readonly measures: RecentMap<Measure>;
  private readonly probing: RecentMap<Probing>;
  /** Waits of measures that were lifted. */
  private readonly waits: RecentMap<number>;

  constructor(options: MeasureOptions = {}) {
    this.options = { ...defaults, ...options };
    this.measures = new RecentMap(this.options.tenantLimit);
    this.probing = new RecentMap(this.options.tenantLimit);
    this.waits = new RecentMap(this.options.tenantLimit);
  }

  /** For a request that begins now. A tenant's own measure comes before one for all. */
  decide(tenant: string, atMs: number): Decision {
    if (this.measures.size === 0) return { kind: 'none' };
    const key = [keyOf(tenant), keyOf(everyone)].find((name) => this.measures.peek(name) !== undefined);
    if (key === undefined) return { kind: 'none' };
    const { action, wait, sinceMs } = this.measures.get(key)!;
    const { requestsPerMinute, draftLength, quietMs } = this.options;
    const fresh = { passed: 0, probedMs: sinceMs, allowed: requestsPerMinute, countedMs: atMs };
    const own = this.probing.getOrCreate(key, () => fresh);
    if (action === 'rate-limit') {
      const retryAfterMs = takeTurn(own, requestsPerMinute, atMs);
      return retryAfterMs > 0 ? { kind: 'refuse', retryAfterMs } : { kind: 'probe', measure: action };
    }
    if (action === 'shorter-drafts') return { kind: action, draftLength };
    own.passed += 1;
    if (own.passed < wait && atMs - own.probedMs < quietMs) return { kind: action };
    own.passed = 0;
    own.probedMs = atMs;
    return { kind: 'probe', measure: action };
  }

  apply({ tenant, model, atMs, id, requestId, cause }: Alert): readonly ActionEvent[] {
    const { action: forTenant, forEveryone, probeEvery, probesToLift } = this.options;
    const action = tenant === everyone ? forEveryone : forTenant;
    const key = keyOf(tenant);
    if (action === 'observe' || !causes.includes(cause) || this.measures.peek(key) !== undefined) return [];
    const wait = this.waits.peek(key) ?? probeEvery;
    this.measures.set(key, { action, alertId: id, wait, goodProbes: 0, sinceMs: atMs });
    this.probing.delete(key);
    const whom = tenant === everyone ? 'all tenants' : 'this tenant';
    const text = `${action} applies to ${whom} until ${probesToLift} probes in a row are good.`;
    return [{ atMs, action, change: 'applied', tenant, model, requestId, alertId: id, text }];
  }

  /** A request that was drafted while a measure was in force. */
  learn(observation: Observation, result: 'good' | 'bad' | 'inconclusive'): readonly ActionEvent[] {
    const { model, id: requestId, endedMs: atMs, measure: during } = observation;
    if (during === undefined || result === 'inconclusive') return [];
    const tenant =
      this.measures.peek(keyOf(observation.tenant)) === undefined ? everyone : observation.tenant;
    const key = keyOf(tenant);
    const measure = this.measures.peek(key);
    if (measure?.action !== during) return [];
    const { maxProbeEvery, probesToLift } = this.options;
    const longer = Math.min(2 * measure.wait, maxProbeEvery);
    const goodProbes = result === 'good' ? measure.goodProbes + 1 : 0;
    if (goodProbes < probesToLift) {
      this.measures.set(key, { ...measure, goodProbes, wait: result === 'good' ? measure.wait : longer });
      return [];
    }
    this.measures.delete(key);
    this.waits.set(key, longer);
    const text = `${during} is lifted after ${probesToLift} good probes in a row.`;
    const { alertId } = measure;
    return [{ atMs, action: during, change: 'lifted', tenant, model, requestId, alertId, text }];
  }

  list(): readonly { readonly tenant: string | null; readonly action: ActionName }[] {
    return [...this.measures.entries()].map(([key, { action }]) => ({ tenant: tenantOf(key), action }));
  }

  save(): readonly (readonly [string, Measure])[] {
    return [...this.measures.entries()];
  }

  restore(saved: readonly (readonly [string, Measure])[]): void {
    this.measures.replace(saved);
  }
}

/** Returns 0, or after how many milliseconds the next request may pass. */
function takeTurn(own: Probing, perMinute: number, atMs: number): number {
  const passedMs = Math.max(0, atMs - own.countedMs);
  own.allowed = Math.min(perMinute, own.allowed + (passedMs * perMinute) / minuteMs);
  own.countedMs = Math.max(atMs, own.countedMs);
  if (own.allowed < 1) return Math.ceil(((1 - own.allowed) * minuteMs) / perMinute);
  own.allowed -= 1;
  return 0;
}

/** No tenant's name can stand for all of them. */
const keyOf = (tenant: string | null): string => (tenant === null ? '*' : `=${tenant}`);
const tenantOf = (key: string): string | null => (key === '*' ? null : key.slice(1));
