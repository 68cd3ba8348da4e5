/**
 * What the page knows: the last answer of the server and the requests, alarms and actions of earlier ones. The server
 * is asked only for what came since, with some overlap, because a record may be entered a moment after it was stamped;
 * what comes twice is known by its name.
 */
import type { ActionEvent, Alarm } from '../../guard/alarm.js';
import type { PageState, ShownRequest } from '../../guard/page-state.js';

export interface Memory {
  readonly state: PageState;
  /** All newest first. */
  readonly requests: readonly ShownRequest[];
  readonly alarms: readonly Alarm[];
  readonly actions: readonly ActionEvent[];
  /** Alarms that the last answer brought; none of the first, which are no news. */
  readonly newAlarms: readonly Alarm[];
}

export const mostRequests = 500;
export const mostEvents = 200;
const overlapMs = 5000;

/** Another start of the server is another memory. */
export function remember(before: Memory | null, state: PageState): Memory {
  const kept = before !== null && before.state.startedMs === state.startedMs ? before : null;
  const known = new Set(kept?.alarms.map(({ id }) => id));
  const endOf = ({ endedMs }: ShownRequest): number => endedMs;
  const timeOf = ({ atMs }: Alarm | ActionEvent): number => atMs;
  const alarms = merge(state.alarms, kept?.alarms ?? [], ({ id }) => id, timeOf, mostEvents);
  return {
    state,
    requests: merge(state.requests, kept?.requests ?? [], ({ id }) => id, endOf, mostRequests),
    alarms,
    actions: merge(state.actions, kept?.actions ?? [], actionKey, timeOf, mostEvents),
    newAlarms: kept === null ? [] : alarms.filter(({ id }) => !known.has(id)),
  };
}

export function askSince(memory: Memory | null): string {
  return memory === null ? '' : `?since=${Math.max(0, Math.floor(memory.state.nowMs - overlapMs))}`;
}

export function actionKey(action: ActionEvent): string {
  const { atMs, change, tenant, model, requestId, alarmId } = action;
  return JSON.stringify([atMs, action.action, change, tenant, model, requestId, alarmId]);
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
