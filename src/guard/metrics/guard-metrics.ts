/**
 * The guard's Prometheus metrics. Labels are bounded: model names come from requests, so only models that an engine has
 * answered become labels, up to a limit, and the rest is `other`. Tenants are labels only where the operator enables it.
 */
import type { ActionEvent, Alert, Verdict } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import { Cells, family, line, textContentType } from './exposition.js';
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
  text(state: MetricsState): string;
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
  const alerts = new Cells(['model', 'route', 'cause'], () => ({ count: 0 }));
  const mitigations = new Cells(['action', 'change'], () => ({ count: 0 }));
  let unread = 0;
  let unattributed: number | null = null;

  const models = new Set<string>();
  const modelLabel = (model: string): string => (models.has(model) ? model : others);
  const tally = createRequestTally({ tenants, labelModel: modelLabel });

  const gauge = (
    name: string,
    help: string,
    value: number | null,
    labels: readonly string[] = [],
  ): string[] => family(name, 'gauge', help, (full) => (value === null ? [] : [line(full, labels, value)]));
  return {
    contentType: textContentType,
    ended(record, verdict) {
      const { status, model } = record;
      if (status >= 200 && status < 300 && models.size < maxModels) models.add(model);
      tally.ended(record, verdict);
    },
    alerted({ model, route, cause }) {
      const values = [modelLabel(model), route, cause];
      alerts.at(values.join(' '), () => values).count++;
    },
    acted({ action, change }) {
      mitigations.at(`${action} ${change}`, () => [action, change]).count++;
    },
    unread() {
      unread++;
    },
    unattributed(share) {
      unattributed = share;
    },
    text({ streams, running, lostRecords, tenants: known, measures, isStateConnected }) {
      const baselines = streams.filter(({ baseline, model }) => baseline !== null && models.has(model));
      const count = (
        { count: value }: { count: number },
        labels: readonly string[],
        name: string,
      ): string[] => [line(name, labels, value)];
      const lines = [
        family('alerts_total', 'counter', 'Alerts by cause.', (name) =>
          alerts.lines((cell, labels) => count(cell, labels, name)),
        ),
        family('mitigations_total', 'counter', 'Measures applied and lifted.', (name) =>
          mitigations.lines((cell, labels) => count(cell, labels, name)),
        ),
        family('requests_unread_total', 'counter', 'Requests that passed without being read.', (name) => [
          line(name, [], unread),
        ]),
        family('baseline_accepted_length', 'gauge', 'Median accepted length of the baseline.', (name) =>
          baselines.map(({ model, route, baseline }) =>
            line(name, ['model', model, 'route', route], baseline!.middle),
          ),
        ),
        gauge('requests_running', 'Requests in progress.', running),
        gauge('records_lost', 'Records that could not be written since the start.', lostRecords),
        gauge('tenants', 'Tenants in memory.', known),
        gauge('measures', 'Measures in force.', measures),
        gauge(
          'unattributed_share',
          "Share of the engine's own draft steps that no request through the guard accounts for.",
          unattributed,
          ['upstream', 'speculative'],
        ),
        gauge(
          'state_connected',
          '1 while the shared state is reachable, 0 while it is not.',
          isStateConnected === null ? null : Number(isStateConnected),
          ['state', 'redis'],
        ),
      ];
      return tally.text() + lines.flatMap((each) => each.map((text) => `${text}\n`)).join('');
    },
  };
}
