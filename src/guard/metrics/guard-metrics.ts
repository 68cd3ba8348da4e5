/**
 * The guard's metrics. Model names come from requests, so only models that an engine has answered become labels, up to a
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

type LabelValues = Readonly<Record<string, string>>;

interface Family {
  readonly labelNames: readonly string[];
  /** By the values of the labels. */
  readonly cells: Map<string, { readonly labels: Labels; readonly sum: Sum | Histogram }>;
}

export class GuardMetrics {
  /** Share of the engine's own counts that no request accounts for; null where the engine has none. */
  unattributed: number | null = null;
  private readonly families: ReadonlyMap<Name, Family>;
  private readonly models = new Set<string>();

  constructor({ tenants = false }: { readonly tenants?: boolean } = {}) {
    const created = Object.entries(families).map(([name, [, labels]]): [Name, Family] => {
      const labelNames = labels.filter((label) => tenants || label !== 'tenant');
      return [name as Name, { labelNames, cells: new Map() }];
    });
    this.families = new Map(created);
    this.add('requests_unread_total', {}, 0);
  }

  ended(record: Observation, verdict: Verdict): void {
    const { route, upstream, ending, engine, tenant, speculation, totalMs, firstByteMs } = record;
    const isAnswer = record.status >= 200 && record.status < 300;
    if (isAnswer && this.models.size < maxModels) this.models.add(record.model);
    const status = record.status === 0 ? 'none' : `${Math.floor(record.status / 100)}xx`;
    this.add('requests_total', { route, upstream, ending, status });
    this.add('request_duration_seconds', { route }, totalMs / 1000);
    if (firstByteMs !== null) this.add('time_to_first_byte_seconds', { route }, firstByteMs / 1000);
    if (!isAnswer || upstream === 'plain') return;
    const labels = { engine, model: this.label(record.model), route, tenant };
    this.add('verdicts_total', { ...labels, verdict: verdict.name });
    if (speculation === null) {
      this.add('requests_without_telemetry_total', labels);
      return;
    }
    const { steps, accepted, proposed, evidence } = speculation;
    this.add('spec_steps_total', labels, steps);
    this.add('spec_accepted_tokens_total', labels, accepted);
    if (proposed !== null) this.add('spec_draft_tokens_total', labels, proposed);
    this.add('request_accepted_length', { ...labels, evidence }, meanAcceptedLength(speculation));
  }

  /** A request passed unread: too large, or no memory left for it. */
  unread(): void {
    this.add('requests_unread_total', {});
  }

  alerted({ model, route, cause }: Alert): void {
    this.add('alerts_total', { model: this.label(model), route, cause });
  }

  acted({ action, change }: ActionEvent): void {
    this.add('mitigations_total', { action, change });
  }

  /** @param state at the time of the scrape */
  text({ streams, running, lostRecords, tenants, measures, isStateConnected }: MetricsState): string {
    for (const [name, { cells }] of this.families) if (typeOf(name) === 'gauge') cells.clear();
    for (const { baseline, model, route } of streams)
      if (baseline !== null && this.models.has(model))
        this.add('baseline_accepted_length', { model, route }, baseline.middle);
    this.add('requests_running', {}, running);
    this.add('records_lost', {}, lostRecords);
    this.add('tenants', {}, tenants);
    this.add('measures', {}, measures);
    if (this.unattributed !== null)
      this.add('unattributed_share', { upstream: 'speculative' }, this.unattributed);
    if (isStateConnected !== null) this.add('state_connected', { state: 'redis' }, Number(isStateConnected));
    const lines = [...this.families].flatMap(([short, { cells }]) => {
      const name = `mistletoe_${short}`;
      const samples = [...cells.values()].flatMap(({ labels, sum }) => sum.lines(name, labels));
      return [`# HELP ${name} ${families[short][0]}`, `# TYPE ${name} ${typeOf(short)}`, ...samples, ''];
    });
    return `${lines.join('\n')}\n`;
  }

  private label(model: string): string {
    return this.models.has(model) ? model : 'other';
  }

  private add(name: Name, given: LabelValues, value = 1): void {
    const { labelNames, cells } = this.families.get(name)!;
    const values = labelNames.map((label) => given[label]!);
    const key = values.join('\n');
    let cell = cells.get(key);
    if (cell === undefined) {
      const labels = labelNames.flatMap((label, index) => [label, values[index]!]);
      const limits = bounds[name];
      cell = { labels, sum: limits === undefined ? new Sum() : new Histogram(limits) };
      cells.set(key, cell);
    }
    cell.sum.observe(value);
  }
}

function typeOf(name: Name): string {
  if (bounds[name] !== undefined) return 'histogram';
  return name.endsWith('_total') ? 'counter' : 'gauge';
}

// Prometheus' text format (0.0.4). Libraries sort the labels for every count, which costs as much as reading the response.

/** Names and values alternate. */
type Labels = readonly string[];

export const textContentType = 'text/plain; version=0.0.4; charset=utf-8';

class Sum {
  private total = 0;

  observe(value: number): void {
    this.total += value;
  }

  lines(name: string, labels: Labels): string[] {
    return [line(name, labels, this.total)];
  }
}

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
