/**
 * The guard's metrics. Requests with the same labels share one tally, found by one key; families are summed from the
 * tallies when scraped. Labels are bounded: model names come from requests, so only models that an engine has answered
 * become labels, up to a limit, and the rest is `other`. Tenants are labels only where the operator enables it.
 */
import type { StreamBaseline } from '../judge/rank.js';
import type { ActionEvent, Alert, Verdict } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import { meanAcceptedLength } from '../observation.js';
import type { Labels } from './exposition.js';
import { Histogram, line, textContentType } from './exposition.js';

export interface MetricsState {
  readonly streams: readonly Pick<StreamBaseline, 'model' | 'route' | 'baseline'>[];
  readonly running: number;
  readonly lostRecords: number;
  readonly tenants: number;
  readonly measures: number;
  /** Of the shared state; null where there is none. */
  readonly isStateConnected: boolean | null;
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

type Name = keyof typeof help;
type Value = number | Histogram;

const lengths = [1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 16];
const seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/** Requests whose labels are all the same. Values that do not apply are undefined. */
class Tally {
  requests_total = 0;
  verdicts_total: number | undefined;
  requests_without_telemetry_total: number | undefined;
  spec_steps_total: number | undefined;
  spec_accepted_tokens_total: number | undefined;
  spec_draft_tokens_total: number | undefined;
  request_accepted_length: Histogram | undefined;
  time_to_first_byte_seconds: Histogram | undefined;
  readonly request_duration_seconds = new Histogram(seconds);

  constructor(readonly labels: Readonly<Record<string, string>>) {}

  add({ totalMs, firstByteMs }: Observation): void {
    this.requests_total++;
    this.request_duration_seconds.observe(totalMs / 1000);
    if (firstByteMs !== null)
      (this.time_to_first_byte_seconds ??= new Histogram(seconds)).observe(firstByteMs / 1000);
  }

  /** For a request that the speculative engine answered. */
  addAnswer({ speculation }: Observation): void {
    this.verdicts_total = this.requests_total;
    if (speculation === null) {
      this.requests_without_telemetry_total = this.requests_total;
      return;
    }
    const { steps, accepted, proposed } = speculation;
    this.spec_steps_total = (this.spec_steps_total ?? 0) + steps;
    this.spec_accepted_tokens_total = (this.spec_accepted_tokens_total ?? 0) + accepted;
    if (proposed !== null) this.spec_draft_tokens_total = (this.spec_draft_tokens_total ?? 0) + proposed;
    (this.request_accepted_length ??= new Histogram(lengths)).observe(meanAcceptedLength(speculation));
  }
}

const own = ['engine', 'model', 'route', 'tenant'];
const families = {
  request_accepted_length: [...own, 'evidence'],
  spec_steps_total: own,
  spec_draft_tokens_total: own,
  spec_accepted_tokens_total: own,
  requests_without_telemetry_total: own,
  verdicts_total: [...own, 'verdict'],
  requests_total: ['route', 'upstream', 'ending', 'status'],
  request_duration_seconds: ['route'],
  time_to_first_byte_seconds: ['route'],
} as const;

const maxModels = 100;

export class GuardMetrics {
  readonly contentType = textContentType;
  /** Requests that passed unread: too large, or no memory left for them. */
  unread = 0;
  /** Share of the engine's own counts that no request accounts for; null where the engine has none. */
  unattributed: number | null = null;
  private readonly tallies = new Map<string, Tally>();
  private readonly models = new Set<string>();
  private readonly alerts = new Sums();
  private readonly mitigations = new Sums();
  private readonly tenants: boolean;

  constructor({ tenants = false }: { readonly tenants?: boolean } = {}) {
    this.tenants = tenants;
  }

  ended(record: Observation, verdict: Verdict): void {
    const { route, upstream, ending, engine, speculation } = record;
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
    let tally = this.tallies.get(key);
    if (tally === undefined) {
      const labels = { route, upstream, ending, status, engine, model, tenant, evidence };
      tally = new Tally({ ...labels, verdict: verdict.name });
      this.tallies.set(key, tally);
    }
    tally.add(record);
    if (isJudged) tally.addAnswer(record);
  }

  alerted({ model, route, cause }: Alert): void {
    this.alerts.add(['model', this.label(model), 'route', route, 'cause', cause], 1);
  }

  acted({ action, change }: ActionEvent): void {
    this.mitigations.add(['action', action, 'change', change], 1);
  }

  /** @param state at the time of the scrape */
  text({ streams, running, lostRecords, tenants, measures, isStateConnected }: MetricsState): string {
    const baselines = new Sums();
    for (const { baseline, model, route } of streams)
      if (baseline !== null && this.models.has(model))
        baselines.add(['model', model, 'route', route], baseline.middle);
    const one = (value: number | null, ...labels: string[]): Sums => {
      const sums = new Sums();
      if (value !== null) sums.add(labels, value);
      return sums;
    };
    const connected = isStateConnected === null ? null : Number(isStateConnected);
    const lines = [
      ...Object.keys(families).flatMap((name) => this.family(name as keyof typeof families)),
      ...write('alerts_total', 'counter', this.alerts),
      ...write('mitigations_total', 'counter', this.mitigations),
      ...write('requests_unread_total', 'counter', one(this.unread)),
      ...write('baseline_accepted_length', 'gauge', baselines),
      ...write('requests_running', 'gauge', one(running)),
      ...write('records_lost', 'gauge', one(lostRecords)),
      ...write('tenants', 'gauge', one(tenants)),
      ...write('measures', 'gauge', one(measures)),
      ...write('unattributed_share', 'gauge', one(this.unattributed, 'upstream', 'speculative')),
      ...write('state_connected', 'gauge', one(connected, 'state', 'redis')),
    ];
    return `${lines.join('\n')}\n`;
  }

  private label(model: string): string {
    return this.models.has(model) ? model : 'other';
  }

  private family(name: keyof typeof families): readonly string[] {
    const names = families[name].filter((label) => this.tenants || label !== 'tenant');
    const sums = new Sums();
    for (const tally of this.tallies.values()) {
      const value = tally[name];
      if (value !== undefined)
        sums.add(
          names.flatMap((label) => [label, tally.labels[label]!]),
          value,
        );
    }
    return write(name, name.endsWith('_total') ? 'counter' : 'histogram', sums);
  }
}

/** Values by their labels. */
class Sums {
  readonly cells = new Map<string, { readonly labels: Labels; readonly value: Value }>();

  add(labels: Labels, value: Value): void {
    const key = labels.join('\n');
    const known = this.cells.get(key)?.value;
    const isHistogram = known instanceof Histogram && value instanceof Histogram;
    const total = isHistogram ? known.plus(value) : typeof known === 'number' ? known + Number(value) : value;
    this.cells.set(key, { labels, value: total });
  }
}

function write(shortName: Name, type: 'counter' | 'gauge' | 'histogram', sums: Sums): readonly string[] {
  const name = `mistletoe_${shortName}`;
  const lines = [...sums.cells.values()].flatMap(({ labels, value }) =>
    value instanceof Histogram ? value.lines(name, labels) : [line(name, labels, value)],
  );
  return [`# HELP ${name} ${help[shortName]}`, `# TYPE ${name} ${type}`, ...lines, ''];
}
