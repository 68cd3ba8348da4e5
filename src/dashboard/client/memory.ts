/**
 * What the page knows: the last answer of the server and the requests, alerts and actions of earlier ones. The server
 * is asked only for what came since, with some overlap, because a record may be entered a moment after it was stamped;
 * what comes twice is known by its name.
 */
import type { ActionEvent, Alert } from '../../guard/judge/verdict.js';
import type { PageState, ShownRequest } from '../../guard/metrics/page-state.js';

export interface Memory {
  readonly state: PageState;
  /** All newest first. */
  readonly requests: readonly ShownRequest[];
  readonly alerts: readonly Alert[];
  readonly actions: readonly ActionEvent[];
  /** Alerts that the last answer brought; none of the first, which are no news. */
  readonly newAlerts: readonly Alert[];
}

export const mostRequests = 500;
export const mostEvents = 200;
const overlapMs = 5000;

/** Another start of the server is another memory. */
export function remember(before: Memory | null, state: PageState): Memory {
  const kept = before !== null && before.state.startedMs === state.startedMs ? before : null;
  const known = new Set(kept?.alerts.map(({ id }) => id));
  const endOf = ({ endedMs }: ShownRequest): number => endedMs;
  const timeOf = ({ atMs }: Alert | ActionEvent): number => atMs;
  const alerts = merge(state.alerts, kept?.alerts ?? [], ({ id }) => id, timeOf, mostEvents);
  return {
    state,
    requests: merge(state.requests, kept?.requests ?? [], ({ id }) => id, endOf, mostRequests),
    alerts,
    actions: merge(state.actions, kept?.actions ?? [], actionKey, timeOf, mostEvents),
    newAlerts: kept === null ? [] : alerts.filter(({ id }) => !known.has(id)),
  };
}

export function askSince(memory: Memory | null): string {
  return memory === null ? '' : `?since=${Math.max(0, Math.floor(memory.state.nowMs - overlapMs))}`;
}

export function actionKey(action: ActionEvent): string {
  const { atMs, change, tenant, model, requestId, alertId } = action;
  return JSON.stringify([atMs, action.action, change, tenant, model, requestId, alertId]);
}

function merge<Item>(
  news: readonly Item[],
  known: readonly Item[],
  keyOf: (item: Item) => string,
  timeOf: (item: Item) => number,
  most: number,
): readonly Item[] {
  const byKey = new Map([...known, ...news].map((item) => [keyOf(item), item]));
  return [...byKey.values()].sort((left, right) => timeOf(right) - timeOf(left)).slice(0, most);
}
