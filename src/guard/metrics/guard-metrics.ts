/**
 * The guard's metrics in Prometheus' text format (0.0.4). Requests with the same labels share one tally, found by one key;
 * families are summed from the tallies when scraped, because libraries that sort labels for every count cost as much as
 * reading the response. Labels are bounded: model names come from requests, so only models that an engine has answered
 * become labels, up to a limit, and the rest is `other`. Tenants are labels only where the operator enables it.
 */
import type { ActionEvent, Alert, Verdict } from '../judge/verdict.js';
import type { StreamBaseline } from '../judge/rank.js';
import type { Observation } from '../observation.js';
import { meanAcceptedLength } from '../observation.js';

export interface MetricsState {
  readonly streams: readonly Pick<StreamBaseline, 'model' | 'route' | 'baseline'>[];
  readonly running: number;
  readonly lostRecords: number;
  readonly tenants: number;
  readonly measures: number;
  /** Of the shared state; null where there is none. */
  readonly isStateConnected: boolean | null;
}

type Labels = Readonly<Record<string, string>>;

const lengths = [1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 16];
const seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/** Requests whose labels are all the same. Histograms end with the count above the last bound and the sum. */
class Tally {
  count = 0;
  steps = 0;
  accepted = 0;
  proposed: number | undefined;
  length: Float64Array | undefined;
  firstByte: Float64Array | undefined;
  readonly duration = new Float64Array(seconds.length + 2);

  constructor(
    readonly labels: Labels,
    readonly isAnswered: boolean,
  ) {}

  add({ totalMs, firstByteMs, speculation }: Observation): void {
    this.count++;
    observe(this.duration, seconds, totalMs / 1000);
    if (firstByteMs !== null) {
      this.firstByte ??= new Float64Array(seconds.length + 2);
      observe(this.firstByte, seconds, firstByteMs / 1000);
    }
    if (speculation === null || !this.isAnswered) return;
    this.steps += speculation.steps;
    this.accepted += speculation.accepted;
    if (speculation.proposed !== null) this.proposed = (this.proposed ?? 0) + speculation.proposed;
    this.length ??= new Float64Array(lengths.length + 2);
    observe(this.length, lengths, meanAcceptedLength(speculation));
  }
}

function observe(histogram: Float64Array, bounds: readonly number[], value: number): void {
  let place = 0;
  while (place < bounds.length && value > bounds[place]!) place++;
  histogram[place]!++;
  histogram[histogram.length - 1]! += value;
}

interface Family {
  readonly name: keyof typeof help;
  readonly labels: readonly string[];
  /** Of a histogram; a counter has none. */
  readonly bounds?: readonly number[];
  /** What a tally adds; undefined where the family leaves it out. */
  readonly read: (tally: Tally) => ArrayLike<number> | undefined;
}

const help = {
  request_accepted_length: 'Mean accepted length of a request, the bonus token included.',
  spec_steps_total: 'Verification passes of the target.',
  spec_draft_tokens_total: 'Draft tokens, where the engine counts them.',
  spec_accepted_tokens_total: 'Accepted draft tokens, without bonus tokens.',
  requests_without_telemetry_total: 'Answered requests without draft counts.',
  verdicts_total: 'Answered requests by verdict.',
  requests_total: 'Requests forwarded or refused.',
  request_duration_seconds: 'From request to end of response.',
  time_to_first_byte_seconds: 'From request to first byte of the response.',
  alerts_total: 'Alerts by cause.',
  mitigations_total: 'Measures applied and lifted.',
  requests_unread_total: 'Requests that passed without being read.',
  baseline_accepted_length: 'Median accepted length of the baseline.',
  requests_running: 'Requests in progress.',
  records_lost: 'Records that could not be written since the start.',
  tenants: 'Tenants in memory.',
  measures: 'Measures in force.',
  unattributed_share: "Share of the engine's own draft steps that no request through the guard accounts for.",
  state_connected: '1 while the shared state is reachable, 0 while it is not.',
} as const;

const own = ['engine', 'model', 'route', 'tenant'];
const where = (isIncluded: boolean, value = 0): readonly number[] | undefined =>
  isIncluded ? [value] : undefined;
const families: readonly Family[] = [
  {
    name: 'request_accepted_length',
    labels: [...own, 'evidence'],
    bounds: lengths,
    read: ({ length }) => length,
  },
  { name: 'spec_steps_total', labels: own, read: ({ length, steps }) => where(length !== undefined, steps) },
  {
    name: 'spec_draft_tokens_total',
    labels: own,
    read: ({ proposed }) => where(proposed !== undefined, proposed),
  },
  {
    name: 'spec_accepted_tokens_total',
    labels: own,
    read: ({ length, accepted }) => where(length !== undefined, accepted),
  },
  {
    name: 'requests_without_telemetry_total',
    labels: own,
    read: (tally) => where(tally.isAnswered && tally.length === undefined, tally.count),
  },
  {
    name: 'verdicts_total',
    labels: [...own, 'verdict'],
    read: ({ isAnswered, count }) => where(isAnswered, count),
  },
  { name: 'requests_total', labels: ['route', 'upstream', 'ending', 'status'], read: ({ count }) => [count] },
  { name: 'request_duration_seconds', labels: ['route'], bounds: seconds, read: ({ duration }) => duration },
  {
    name: 'time_to_first_byte_seconds',
    labels: ['route'],
    bounds: seconds,
    read: ({ firstByte }) => firstByte,
  },
];

const maxModels = 100;

export class GuardMetrics {
  readonly contentType = 'text/plain; version=0.0.4; charset=utf-8';
  /** Requests that passed unread: too large, or no memory left for them. */
  unread = 0;
  /** Share of the engine's own counts that no request accounts for; null where the engine has none. */
  unattributed: number | null = null;
  private readonly tallies = new Map<string, Tally>();
  private readonly models = new Set<string>();
  /** By the text of their labels. */
  private readonly alerts = new Map<string, number>();
  private readonly mitigations = new Map<string, number>();
  private readonly tenants: boolean;

  constructor({ tenants = false }: { readonly tenants?: boolean } = {}) {
    this.tenants = tenants;
  }

  ended(record: Observation, verdict: Verdict): void {
    const { route, upstream, ending, status, engine, model: given, speculation } = record;
    const isAnswer = status >= 200 && status < 300;
    if (isAnswer && this.models.size < maxModels) this.models.add(given);
    const isJudged = isAnswer && upstream === 'speculative';
    const model = this.label(given);
    const tenant = this.tenants ? record.tenant : '';
    const evidence = speculation?.evidence ?? '';
    const outcome = status === 0 ? 'none' : `${Math.floor(status / 100)}xx`;
    const key = isJudged
      ? `${verdict.name} ${ending} ${outcome} ${evidence} ${route} ${engine} ${tenant} ${model}`
      : `${upstream} ${ending} ${outcome} ${route}`;
    let tally = this.tallies.get(key);
    if (tally === undefined) {
      const labels = { route, upstream, ending, status: outcome, engine, model };
      tally = new Tally({ ...labels, tenant, evidence, verdict: verdict.name }, isJudged);
      this.tallies.set(key, tally);
    }
    tally.add(record);
  }

  alerted({ model, route, cause }: Alert): void {
    const labels = labelText({ model: this.label(model), route, cause });
    this.alerts.set(labels, (this.alerts.get(labels) ?? 0) + 1);
  }

  acted({ action, change }: ActionEvent): void {
    const labels = labelText({ action, change });
    this.mitigations.set(labels, (this.mitigations.get(labels) ?? 0) + 1);
  }

  /** @param state at the time of the scrape */
  text({ streams, running, lostRecords, tenants, measures, isStateConnected }: MetricsState): string {
    const baselines = streams.flatMap(({ baseline, model, route }): [string, number][] =>
      baseline === null || !this.models.has(model) ? [] : [[labelText({ model, route }), baseline.middle]],
    );
    const gauge = (name: keyof typeof help, value: number | null, labels = ''): readonly string[] =>
      write(name, 'gauge', value === null ? [] : [[labels, value]]);
    const lines = [
      ...families.flatMap((family) => this.sum(family)),
      ...write('alerts_total', 'counter', this.alerts),
      ...write('mitigations_total', 'counter', this.mitigations),
      ...write('requests_unread_total', 'counter', [['', this.unread]]),
      ...write('baseline_accepted_length', 'gauge', baselines),
      ...gauge('requests_running', running),
      ...gauge('records_lost', lostRecords),
      ...gauge('tenants', tenants),
      ...gauge('measures', measures),
      ...gauge('unattributed_share', this.unattributed, '{upstream="speculative"}'),
      ...gauge(
        'state_connected',
        isStateConnected === null ? null : Number(isStateConnected),
        '{state="redis"}',
      ),
    ];
    return `${lines.join('\n')}\n`;
  }

  private label(model: string): string {
    return this.models.has(model) ? model : 'other';
  }

  private sum({ name, labels: names, bounds, read }: Family): readonly string[] {
    const groups = new Map<string, Float64Array>();
    for (const tally of this.tallies.values()) {
      const added = read(tally);
      if (added === undefined) continue;
      const kept = names.filter((label) => this.tenants || label !== 'tenant');
      const labels = labelText(Object.fromEntries(kept.map((label) => [label, tally.labels[label]!])));
      const sums = groups.get(labels) ?? new Float64Array(added.length);
      groups.set(labels, sums);
      for (let index = 0; index < added.length; index++) sums[index]! += added[index]!;
    }
    if (bounds === undefined)
      return write(
        name,
        'counter',
        [...groups].map(([key, [value]]) => [key, value!]),
      );
    const samples = [...groups].flatMap(([labels, sums]): [string, number][] => {
      let total = 0;
      const buckets = [...bounds, '+Inf'].map((bound, place): [string, number] => {
        total += sums[place]!;
        return [`_bucket{le="${bound}",${labels.slice(1)}`, total];
      });
      return [...buckets, [`_sum${labels}`, sums.at(-1)!], [`_count${labels}`, total]];
    });
    return write(name, 'histogram', samples);
  }
}

/** @param samples what follows the name, and the value */
function write(
  shortName: keyof typeof help,
  type: 'counter' | 'gauge' | 'histogram',
  samples: Iterable<readonly [string, number]>,
): readonly string[] {
  const name = `mistletoe_${shortName}`;
  const lines = Array.from(samples, ([labels, value]) => `${name}${labels} ${value}`);
  return [`# HELP ${name} ${help[shortName]}`, `# TYPE ${name} ${type}`, ...lines, ''];
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '"': '\\"' };

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(
    ([name, value]) => `${name}="${value.replace(/[\\\n"]/g, (found) => escapes[found]!)}"`,
  );
  return `{${pairs.join(',')}}`;
}
