/**
 * The guard's metrics. Requests with the same labels share one tally, found by one key; families are summed from the
 * tallies when scraped. Model names come from requests, so only models that an engine has answered become labels, up to a
 * limit, and the rest is `other`. Tenants are labels only where the operator enables it.
 */
import type { StreamBaseline } from '../judge/rank.js';
import type { ActionEvent, Alert, Verdict } from '../judge/verdict.js';
import { type Observation, meanAcceptedLength } from '../observation.js';

export interface MetricsState {
  readonly streams: readonly Pick<StreamBaseline, 'model' | 'route' | 'baseline'>[];
  readonly running: number;
  readonly lostRecords: number;
  readonly tenants: number;
  readonly measures: number;
  /** Of the shared state; null where there is none. */
  readonly isStateConnected: boolean | null;
}

const own = ['engine', 'model', 'route', 'tenant'];
const unattributed = "Share of the engine's own draft steps that no request through the guard accounts for.";

/** Help and labels; `_total` is a counter, and what has bounds is a histogram. */
const families = {
  request_accepted_length: [
    'Mean accepted length of a request, the bonus token included.',
    [...own, 'evidence'],
  ],
  spec_steps_total: ['Verification passes of the target.', own],
  spec_draft_tokens_total: ['Draft tokens, where the engine counts them.', own],
  spec_accepted_tokens_total: ['Accepted draft tokens, without bonus tokens.', own],
  requests_without_telemetry_total: ['Answered requests without draft counts.', own],
  verdicts_total: ['Answered requests by verdict.', [...own, 'verdict']],
  requests_total: ['Requests forwarded or refused.', ['route', 'upstream', 'ending', 'status']],
  request_duration_seconds: ['From request to end of response.', ['route']],
  time_to_first_byte_seconds: ['From request to first byte of the response.', ['route']],
  alerts_total: ['Alerts by cause.', ['model', 'route', 'cause']],
  mitigations_total: ['Measures applied and lifted.', ['action', 'change']],
  requests_unread_total: ['Requests that passed without being read.', []],
  baseline_accepted_length: ['Median accepted length of the baseline.', ['model', 'route']],
  requests_running: ['Requests in progress.', []],
  records_lost: ['Records that could not be written since the start.', []],
  tenants: ['Tenants in memory.', []],
  measures: ['Measures in force.', []],
  unattributed_share: [unattributed, ['upstream']],
  state_connected: ['1 while the shared state is reachable, 0 while it is not.', ['state']],
} as const satisfies Record<string, readonly [help: string, labels: readonly string[]]>;
type Name = keyof typeof families;

const seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const bounds: Readonly<Partial<Record<Name, readonly number[]>>> = {
  request_accepted_length: [1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 16],
  request_duration_seconds: seconds,
  time_to_first_byte_seconds: seconds,
};

const maxModels = 100;

class Tally {
  readonly values: Partial<Record<Name, number | Histogram>> = {};

  constructor(readonly labels: Readonly<Record<string, string>>) {}

  count(name: Name, amount = 1): void {
    this.values[name] = ((this.values[name] as number | undefined) ?? 0) + amount;
  }

  observe(name: Name, value: number): void {
    ((this.values[name] ??= new Histogram(bounds[name]!)) as Histogram).observe(value);
  }
}

export class GuardMetrics {
  /** Requests that passed unread: too large, or no memory left for them. */
  unread = 0;
  /** Share of the engine's own counts that no request accounts for; null where the engine has none. */
  unattributed: number | null = null;
  private readonly tallies = new Map<string, Tally>();
  private readonly models = new Set<string>();
  private readonly tenants: boolean;

  constructor({ tenants = false }: { readonly tenants?: boolean } = {}) {
    this.tenants = tenants;
  }

  ended(record: Observation, verdict: Verdict): void {
    const { route, upstream, ending, engine, speculation, totalMs, firstByteMs } = record;
    const isAnswer = record.status >= 200 && record.status < 300;
    if (isAnswer && this.models.size < maxModels) this.models.add(record.model);
    const isJudged = isAnswer && upstream === 'speculative';
    const model = this.label(record.model);
    const tenant = this.tenants ? record.tenant : '';
    const evidence = speculation?.evidence ?? '';
    const status = record.status === 0 ? 'none' : `${Math.floor(record.status / 100)}xx`;
    const key = isJudged
      ? `${verdict.name} ${ending} ${status} ${evidence} ${route} ${engine} ${tenant} ${model}`
      : `${upstream} ${ending} ${status} ${route}`;
    const labels = {
      route,
      upstream,
      ending,
      status,
      engine,
      model,
      tenant,
      evidence,
      verdict: verdict.name,
    };
    const tally = this.tally(key, labels);
    tally.count('requests_total');
    tally.observe('request_duration_seconds', totalMs / 1000);
    if (firstByteMs !== null) tally.observe('time_to_first_byte_seconds', firstByteMs / 1000);
    if (!isJudged) return;
    tally.count('verdicts_total');
    if (speculation === null) {
      tally.count('requests_without_telemetry_total');
      return;
    }
    tally.count('spec_steps_total', speculation.steps);
    tally.count('spec_accepted_tokens_total', speculation.accepted);
    if (speculation.proposed !== null) tally.count('spec_draft_tokens_total', speculation.proposed);
    tally.observe('request_accepted_length', meanAcceptedLength(speculation));
  }

  alerted({ model: name, route, cause }: Alert): void {
    const model = this.label(name);
    this.tally(`alert ${cause} ${route} ${model}`, { model, route, cause }).count('alerts_total');
  }

  acted({ action, change }: ActionEvent): void {
    this.tally(`action ${action} ${change}`, { action, change }).count('mitigations_total');
  }

  /** @param state at the time of the scrape */
  text({ streams, running, lostRecords, tenants, measures, isStateConnected }: MetricsState): string {
    const sums = new Map<string, { readonly labels: Labels; value: number | Histogram }>();
    const add = (name: Name, labels: Tally['labels'], value: number | Histogram): void => {
      const [, all]: readonly [string, readonly string[]] = families[name];
      const names = all.filter((label) => this.tenants || label !== 'tenant');
      const pairs = names.flatMap((label) => [label, labels[label]!]);
      const key = [name, ...pairs].join('\n');
      const known = sums.get(key);
      if (known === undefined) sums.set(key, { labels: pairs, value });
      else known.value = addValues(known.value, value);
    };
    for (const { labels, values } of this.tallies.values())
      for (const [name, value] of Object.entries(values)) add(name as Name, labels, value);
    for (const { baseline, model, route } of streams)
      if (baseline !== null && this.models.has(model))
        add('baseline_accepted_length', { model, route }, baseline.middle);
    add('requests_unread_total', {}, this.unread);
    add('requests_running', {}, running);
    add('records_lost', {}, lostRecords);
    add('tenants', {}, tenants);
    add('measures', {}, measures);
    if (this.unattributed !== null) add('unattributed_share', { upstream: 'speculative' }, this.unattributed);
    if (isStateConnected !== null) add('state_connected', { state: 'redis' }, Number(isStateConnected));
    const lines = Object.entries(families).flatMap(([short, [help]]) => {
      const name = `mistletoe_${short}`;
      const isHistogram = bounds[short as Name] !== undefined;
      const type = isHistogram ? 'histogram' : short.endsWith('_total') ? 'counter' : 'gauge';
      const cells = [...sums].filter(([key]) => key.split('\n', 1)[0] === short);
      const samples = cells.flatMap(([, { labels, value }]) =>
        typeof value === 'number' ? [line(name, labels, value)] : value.lines(name, labels),
      );
      return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...samples, ''];
    });
    return `${lines.join('\n')}\n`;
  }

  private label(model: string): string {
    return this.models.has(model) ? model : 'other';
  }

  private tally(key: string, labels: Tally['labels']): Tally {
    const known = this.tallies.get(key);
    if (known !== undefined) return known;
    const tally = new Tally(labels);
    this.tallies.set(key, tally);
    return tally;
  }
}

function addValues(one: number | Histogram, other: number | Histogram): number | Histogram {
  return typeof one === 'number' || typeof other === 'number' ? Number(one) + Number(other) : one.plus(other);
}

/**
 * Prometheus' text format (0.0.4). Libraries sort and join the labels for every count, which costs as much as reading the
 * response; here text is made when scraped.
 */

/** Names and values alternate. */
type Labels = readonly string[];

export const textContentType = 'text/plain; version=0.0.4; charset=utf-8';

export class Histogram {
  private readonly counts: Float64Array;
  private sum = 0;

  constructor(private readonly bounds: readonly number[]) {
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds } = this;
    let place = 0;
    while (place < bounds.length && value > bounds[place]!) place++;
    this.counts[place]!++;
    this.sum += value;
  }

  /** Of two with the same bounds. */
  plus(other: Histogram): Histogram {
    const total = new Histogram(this.bounds);
    total.sum = this.sum + other.sum;
    for (const place of total.counts.keys()) total.counts[place] = this.counts[place]! + other.counts[place]!;
    return total;
  }

  lines(name: string, labels: Labels): string[] {
    let total = 0;
    const buckets = Array.from(this.counts, (count, place) => {
      total += count;
      const bound = place < this.bounds.length ? String(this.bounds[place]) : '+Inf';
      return line(`${name}_bucket`, ['le', bound, ...labels], total);
    });
    return [...buckets, line(`${name}_sum`, labels, this.sum), line(`${name}_count`, labels, total)];
  }
}

export function line(name: string, labels: Labels, value: number): string {
  const pairs: string[] = [];
  for (let index = 0; index < labels.length; index += 2)
    pairs.push(`${labels[index]!}="${escapeLabel(labels[index + 1]!)}"`);
  return pairs.length === 0 ? `${name} ${value}` : `${name}{${pairs.join(',')}} ${value}`;
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '"': '\\"' };
const escapeLabel = (text: string): string => text.replace(/[\\\n"]/g, (found) => escapes[found]!);
