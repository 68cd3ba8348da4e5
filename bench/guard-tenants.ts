/**
 * A simulated week: tenants draw their requests from kept steps, and a monitor, a fixed rule and a gate for the whole server
 * look on. What an attacking tenant sends is in part attacked, in part benign.
 */
import type { Random } from '../src/core/random.js';
import { createRandom } from '../src/core/random.js';
import { OneWayGate } from '../src/guard/gates.js';
import { Monitor } from '../src/guard/monitor.js';
import type { SavedMonitor } from '../src/guard/monitor-state.js';
import { falseAlarms, meanLengthOf, minuteMs, toRecord } from './guard-scores.js';
import type { Trace } from './guard-traces.js';

export const tenantCount = 40;
export const requestsPerWeek = 10_080;
/** The fixed rule looks at so many of a tenant's last requests, the gate at so many of everybody's. */
export const ruleWindow = 20;
export const gateWindow = 100;
export const longestAttack = 200;

export interface Week {
  readonly requestAlarms: number;
  /** The share of its requests that rang, of the tenant with the highest one. */
  readonly highestOfTenants: number;
  readonly tenantAlarms: number;
  readonly tenantsThatRang: number;
  readonly everyoneAlarms: number;
  /** Lowest mean accepted lengths that the two rules saw; for a rule of tenants, the lowest of each tenant. */
  readonly lowestOfTenants: readonly number[];
  readonly lowestOfAll: number;
  /** [tenant] What it draws its requests from. */
  readonly sources: readonly (readonly Trace[])[];
  readonly monitor: SavedMonitor;
  readonly endMs: number;
}

/** `specialised`: each tenant asks from one set alone, else all from all. */
export function simulateBenignWeek(
  calibrated: SavedMonitor,
  benign: readonly Trace[],
  tenants: 'mixed' | 'specialised',
  number = 1,
): Week {
  const monitor = createMonitor(calibrated);
  const random = createRandom(number, 'week', tenants);
  const sets = [...new Set(benign.map(({ set }) => set))];
  const sources = Array.from({ length: tenantCount }, (_, tenant) =>
    tenants === 'mixed' ? benign : benign.filter(({ set }) => set === sets[tenant % sets.length]),
  );
  const counts = { request: 0, tenant: 0, everyone: 0 };
  const rang = new Set<number>();
  const shares = sources.map(() => ({ requests: 0, alarms: 0 }));
  const rules = new Map(sources.map((_, tenant) => [tenant, new RollingMean(ruleWindow)]));
  const gate = new RollingMean(gateWindow);
  const startMs = 7 * 24 * 60 * minuteMs;
  let atMs = startMs;
  for (let request = 0; request < requestsPerWeek; request++) {
    const tenant = random.nextInteger(tenantCount);
    const trace = draw(random, sources[tenant]!);
    atMs += minuteMs;
    const { alarms } = monitor.observe(toRecord(trace, `tenant-${tenant}`, `week-${request}`, atMs));
    for (const { scope, cause } of alarms) if (cause !== 'repetition') counts[scope] += 1;
    if (alarms.some(({ scope }) => scope === 'tenant')) rang.add(tenant);
    shares[tenant]!.requests += 1;
    shares[tenant]!.alarms += Number(
      alarms.some(({ scope, cause }) => scope === 'request' && cause !== 'repetition'),
    );
    rules.get(tenant)!.add(meanLengthOf(trace));
    gate.add(meanLengthOf(trace));
  }
  return {
    ...{ requestAlarms: counts.request, tenantAlarms: counts.tenant, everyoneAlarms: counts.everyone },
    tenantsThatRang: rang.size,
    highestOfTenants: Math.max(...shares.map(({ requests, alarms }) => alarms / Math.max(1, requests))),
    lowestOfTenants: [...rules.values()].map(({ lowest }) => lowest),
    lowestOfAll: gate.lowest,
    sources,
    monitor: monitor.save(),
    endMs: atMs,
  };
}

export interface Campaign {
  /** Requests of the attacking tenant, attacked ones among them, until each was sure of it; undefined if it never was. */
  readonly byRequest: number | undefined;
  readonly byTenant: number | undefined;
  /** The alarm about the tenant was one about the level of its requests. */
  readonly isLevel: boolean;
  readonly byRule: number | undefined;
  /** Of tenants that only stood by. */
  readonly alarmsOfOthers: number;
}

export interface CampaignOptions {
  readonly share: number;
  readonly ruleThreshold: number;
  readonly seed: number;
  /** Its number, if it is one of those of the week; a newcomer unless given. */
  readonly tenant?: number;
}

/** After a benign week one tenant attacks, while three requests of others come between each two of its own. */
export function simulateCampaign(
  week: Week,
  benign: readonly Trace[],
  attacked: readonly Trace[],
  options: CampaignOptions,
): Campaign {
  const monitor = createMonitor(week.monitor);
  const random = createRandom(options.seed, 'campaign');
  const rule = new RollingMean(ruleWindow);
  const attacker = options.tenant === undefined ? 'attacker' : `tenant-${options.tenant}`;
  const others = week.sources.flatMap((source, tenant) =>
    tenant === options.tenant ? [] : [{ name: `tenant-${tenant}`, source }],
  );
  let isLevel = false;
  let [byRequest, byTenant, byRule]: (number | undefined)[] = [];
  let alarmsOfOthers = 0;
  let atMs = week.endMs;
  for (let count = 1; count <= longestAttack; count++) {
    for (let other = 0; other < 3; other++) {
      const { name, source } = others[random.nextInteger(others.length)]!;
      atMs += minuteMs;
      const { alarms } = monitor.observe(toRecord(draw(random, source), name, `other-${atMs}`, atMs));
      alarmsOfOthers += alarms.filter(({ scope }) => scope !== 'request').length;
    }
    const trace = draw(random, random.next() < options.share ? attacked : benign);
    atMs += minuteMs;
    const { alarms } = monitor.observe(toRecord(trace, attacker, `attacker-${atMs}`, atMs));
    if (alarms.some(({ scope, cause }) => scope === 'request' && cause !== 'repetition')) byRequest ??= count;
    const about = alarms.find(({ scope }) => scope === 'tenant');
    if (about !== undefined && byTenant === undefined) {
      byTenant = count;
      isLevel = about.text.includes('on average');
    }
    rule.add(meanLengthOf(trace));
    if (rule.lowest < options.ruleThreshold) byRule ??= count;
    if (byTenant !== undefined && byRule !== undefined && byRequest !== undefined) break;
  }
  return { byRequest, byTenant, isLevel, byRule, alarmsOfOthers };
}

/**
 * The gate of a whole server, as TensorRT-LLM has it: the mean accepted length of the last requests of everybody below a
 * threshold switches speculation off, for everybody and for good. Requests until then.
 */
export function simulateGate(
  benign: readonly Trace[],
  attacked: readonly Trace[],
  options: { readonly share: number; readonly threshold: number; readonly seed: number },
): number | undefined {
  const random = createRandom(options.seed, 'gate');
  const gate = new OneWayGate(gateWindow, options.threshold - 1); // it counts without the bonus token
  for (let request = 1; request <= requestsPerWeek; request++) {
    gate.complete(meanLengthOf(draw(random, random.next() < options.share ? attacked : benign)));
    if (gate.isOff) return request;
  }
  return undefined;
}

/** The mean of the last values, and the lowest that it ever was once there were enough of them. */
class RollingMean {
  lowest = Infinity;
  private readonly values: number[] = [];
  private total = 0;

  constructor(private readonly window: number) {}

  add(value: number): void {
    this.values.push(value);
    this.total += value;
    if (this.values.length > this.window) this.total -= this.values.shift()!;
    if (this.values.length === this.window) this.lowest = Math.min(this.lowest, this.total / this.window);
  }
}

function createMonitor(saved: SavedMonitor): Monitor {
  const monitor = new Monitor({ falseAlarms, falseAlarmsPerWeek: 1 });
  monitor.restore(saved);
  return monitor;
}

const draw = (random: Random, traces: readonly Trace[]): Trace => traces[random.nextInteger(traces.length)]!;
