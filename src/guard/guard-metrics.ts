/**
 * What Prometheus reads from the guard. Labels are bounded: names of models come from requests, so only those that an
 * engine has answered become labels, and only so many; the rest is `other`. Tenants are labels where the operator says so.
 */
import { Counter, Gauge, Registry } from 'prom-client';
import type { ActionEvent, Alarm } from './alarm.js';
import type { StreamState } from './page-state.js';
import type { RequestRecord } from './request-record.js';
import { createRequestTally } from './request-tally.js';

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

const mostModels = 100;
const others = 'other';

export function createGuardMetrics({ tenants = false }: { readonly tenants?: boolean } = {}): GuardMetrics {
  const registers = [new Registry()];
  const [registry] = registers as [Registry];
  const counter = (name: string, help: string, labelNames: readonly string[]): Counter =>
    new Counter({ name: `mistletoe_${name}`, help, labelNames, registers });
  const gauge = (name: string, help: string, labelNames: readonly string[] = []): Gauge =>
    new Gauge({ name: `mistletoe_${name}`, help, labelNames, registers });
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
  const tally = createRequestTally({ tenants, labelModel: modelLabel });

  return {
    contentType: registry.contentType,
    ended(record) {
      const { status, model } = record;
      if (status >= 200 && status < 300 && models.size < mostModels) models.add(model);
      tally.ended(record);
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
      return tally.text() + (await registry.metrics());
    },
  };
}
