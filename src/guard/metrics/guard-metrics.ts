/**
 * The guard's Prometheus metrics. Labels are bounded: model names come from requests, so only models that an engine has
 * answered become labels, up to a limit, and the rest is `other`. Tenants are labels only where the operator enables it.
 */
import { Counter, Gauge, Registry } from 'prom-client';
import type { ActionEvent, Alert, Verdict } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import type { StreamState } from './page-state.js';
import { createRequestTally } from './request-tally.js';

export interface GuardMetrics {
  readonly contentType: string;
  ended(record: Observation, verdict: Verdict): void;
  alerted(alert: Alert): void;
  acted(action: ActionEvent): void;
  /** A request that passed unread: too large, or no memory left for it. */
  unread(): void;
  /** Share of the engine's own counts that no request accounts for; null where the engine has none. */
  unattributed(share: number | null): void;
  /** @param state at the time of the scrape */
  text(state: MetricsState): Promise<string>;
}

export interface MetricsState {
  readonly streams: readonly Pick<StreamState, 'model' | 'route' | 'baseline'>[];
  readonly running: number;
  readonly lostRecords: number;
  readonly tenants: number;
  readonly measures: number;
  /** Of the shared state; null where there is none. */
  readonly isStateConnected: boolean | null;
}

const maxModels = 100;
const others = 'other';

export function createGuardMetrics({ tenants = false }: { readonly tenants?: boolean } = {}): GuardMetrics {
  const registry = new Registry();
  const registers = [registry];
  const counter = (name: string, help: string, labelNames: readonly string[]): Counter =>
    new Counter({ name: `mistletoe_${name}`, help, labelNames, registers });
  const gauge = (name: string, help: string, labelNames: readonly string[] = []): Gauge =>
    new Gauge({ name: `mistletoe_${name}`, help, labelNames, registers });
  const alerts = counter('alerts_total', 'Alerts by cause.', ['model', 'route', 'cause']);
  const mitigations = counter('mitigations_total', 'Measures applied and lifted.', ['action', 'change']);
  const unread = counter('requests_unread_total', 'Requests that passed without being read.', []);
  const baseline = gauge('baseline_accepted_length', 'Median accepted length of the baseline.', [
    'model',
    'route',
  ]);
  const running = gauge('requests_running', 'Requests in progress.');
  const lost = gauge('records_lost', 'Records that could not be written since the start.');
  const known = gauge('tenants', 'Tenants in memory.');
  const measures = gauge('measures', 'Measures in force.');
  // A gauge without labels starts at 0; with one it is absent until it has a value.
  const unattributed = gauge(
    'unattributed_share',
    "Share of the engine's own draft steps that no request through the guard accounts for.",
    ['upstream'],
  );
  const connected = gauge('state_connected', '1 while the shared state is reachable, 0 while it is not.', [
    'state',
  ]);

  const models = new Set<string>();
  const modelLabel = (model: string): string => (models.has(model) ? model : others);
  const tally = createRequestTally({ tenants, labelModel: modelLabel });

  return {
    contentType: registry.contentType,
    ended(record, verdict) {
      const { status, model } = record;
      if (status >= 200 && status < 300 && models.size < maxModels) models.add(model);
      tally.ended(record, verdict);
    },
    alerted({ model, route, cause }) {
      alerts.inc({ model: modelLabel(model), route, cause });
    },
    acted({ action, change }) {
      mitigations.inc({ action, change });
    },
    unread() {
      unread.inc();
    },
    unattributed(share) {
      unattributed.reset();
      if (share !== null) unattributed.set({ upstream: 'speculative' }, share);
    },
    async text(state) {
      running.set(state.running);
      lost.set(state.lostRecords);
      known.set(state.tenants);
      measures.set(state.measures);
      if (state.isStateConnected !== null) connected.set({ state: 'redis' }, Number(state.isStateConnected));
      baseline.reset();
      for (const { model, route, baseline: band } of state.streams) {
        if (band !== null && models.has(model)) baseline.set({ model, route }, band.middle);
      }
      return tally.text() + (await registry.metrics());
    },
  };
}
