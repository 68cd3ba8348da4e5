/**
 * What Prometheus reads from the guard. Labels are bounded: names of models come from requests, so only those that an
 * engine has answered become labels, and only so many; the rest is `other`. Tenants are labels where the operator says so.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { ActionEvent, Alarm } from './alarm.js';
import type { StreamState } from './page-state.js';
import type { RequestRecord } from './request-record.js';
import { meanAcceptedLength } from './request-record.js';

export interface GuardMetrics {
  readonly contentType: string;
  ended(record: RequestRecord): void;
  alarmed(alarm: Alarm): void;
  acted(action: ActionEvent): void;
  /** Requests that passed unread: too large, or no room for them. */
  unread(): void;
  /** @param state what is known at the time of the scrape */
  text(state: MetricsState): Promise<string>;
}

export interface MetricsState {
  readonly streams: readonly Pick<StreamState, 'model' | 'route' | 'baseline'>[];
  readonly running: number;
  readonly lostRecords: number;
  readonly tenants: number;
}

const lengths = [1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 12, 16];
const seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const mostModels = 100;
const others = 'other';

export function createGuardMetrics({ tenants = false }: { readonly tenants?: boolean } = {}): GuardMetrics {
  const registers = [new Registry()];
  const [registry] = registers as [Registry];
  const own = ['engine', 'model', 'route', ...(tenants ? ['tenant'] : [])];
  const counter = (name: string, help: string, labelNames: readonly string[]): Counter =>
    new Counter({ name: `mistletoe_${name}`, help, labelNames, registers });
  const gauge = (name: string, help: string, labelNames: readonly string[] = []): Gauge =>
    new Gauge({ name: `mistletoe_${name}`, help, labelNames, registers });
  const histogram = (
    name: string,
    help: string,
    labelNames: readonly string[],
    buckets: number[],
  ): Histogram => new Histogram({ name: `mistletoe_${name}`, help, labelNames, buckets, registers });

  const acceptedLength = histogram(
    'request_accepted_length',
    'Mean accepted length of a request, the bonus token included.',
    [...own, 'evidence'],
    lengths,
  );
  const steps = counter('spec_steps_total', 'Verifications by the target.', own);
  const draftTokens = counter('spec_draft_tokens_total', 'Draft tokens, where the engine counts them.', own);
  const acceptedTokens = counter('spec_accepted_tokens_total', 'Accepted draft tokens, no bonus token.', own);
  const silent = counter(
    'requests_without_telemetry_total',
    'Answered requests of which nothing is known.',
    own,
  );
  const requests = counter('requests_total', 'Requests that were passed on or refused.', [
    ...['route', 'upstream', 'ending', 'status'],
  ]);
  const duration = histogram(
    'request_duration_seconds',
    'From request to end of answer.',
    ['route'],
    seconds,
  );
  const firstByte = histogram('time_to_first_byte_seconds', 'From request to answer.', ['route'], seconds);
  const alerts = counter('collapse_alerts_total', 'Alarms.', ['model', 'route', 'reason', 'scope']);
  const mitigations = counter('mitigations_total', 'Measures taken, lifted and probed.', [
    'action',
    'change',
  ]);
  const unread = counter('requests_unread_total', 'Requests that passed without being read.', []);
  const baseline = gauge('baseline_accepted_length', 'What is expected.', ['model', 'route']);
  const running = gauge('requests_running', 'Requests that are being answered.');
  const lost = gauge('records_lost', 'Records that could not be written since the start.');
  const known = gauge('tenants', 'Tenants that are remembered.');

  const models = new Set<string>();
  const modelLabel = (model: string): string => (models.has(model) ? model : others);

  return {
    contentType: registry.contentType,
    ended(record) {
      const { engine, route, tenant, upstream, ending, status, speculation } = record;
      if (status < 300 && models.size < mostModels) models.add(record.model);
      requests.inc({ route, upstream, ending, status: statusClass(status) });
      duration.observe({ route }, record.totalMs / 1000);
      if (record.firstByteMs !== null) firstByte.observe({ route }, record.firstByteMs / 1000);
      if (upstream === 'plain' || status < 200 || status >= 300) return;
      const labels = { engine, model: modelLabel(record.model), route, ...(tenants ? { tenant } : {}) };
      if (speculation === null) {
        silent.inc(labels);
        return;
      }
      steps.inc(labels, speculation.steps);
      acceptedTokens.inc(labels, speculation.accepted);
      if (speculation.proposed !== null) draftTokens.inc(labels, speculation.proposed);
      acceptedLength.observe({ ...labels, evidence: speculation.evidence }, meanAcceptedLength(speculation));
    },
    alarmed({ model, route, cause, scope }) {
      alerts.inc({ model: modelLabel(model), route, reason: cause, scope });
    },
    acted({ action, change }) {
      mitigations.inc({ action, change });
    },
    unread() {
      unread.inc();
    },
    async text(state) {
      running.set(state.running);
      lost.set(state.lostRecords);
      known.set(state.tenants);
      baseline.reset();
      for (const { model, route, baseline: band } of state.streams) {
        if (band !== null && models.has(model)) baseline.set({ model, route }, band.middle);
      }
      return registry.metrics();
    },
  };
}

function statusClass(status: number): string {
  return status === 0 ? 'none' : `${Math.floor(status / 100)}xx`;
}
