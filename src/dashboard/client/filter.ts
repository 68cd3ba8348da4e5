/** What the reader wants to see: one model, one tenant, one verdict, or all of them. */
import type { ActionEvent, Alert } from '../../guard/judge/verdict.js';
import type { ShownRequest, StreamState } from '../../guard/metrics/page-state.js';
import type { Memory } from './memory.js';

/** The empty string stands for all. */
export interface Filter {
  readonly model: string;
  readonly tenant: string;
  readonly verdict: string;
}

export const everything: Filter = { model: '', tenant: '', verdict: '' };

export interface View {
  readonly streams: readonly StreamState[];
  readonly requests: readonly ShownRequest[];
  readonly alerts: readonly Alert[];
  readonly actions: readonly ActionEvent[];
}

/**
 * Charts know models alone; an alert or action that is about everybody (no tenant, no model) is about the chosen one too.
 */
export function select(memory: Memory, { model, tenant, verdict }: Filter): View {
  const isOf = (wanted: string, value: string | null): boolean =>
    wanted === '' || value === null || value === wanted;
  const concerns = (event: { readonly model: string | null; readonly tenant: string | null }): boolean =>
    isOf(model, event.model) && isOf(tenant, event.tenant);
  return {
    streams: memory.state.streams.filter((stream) => isOf(model, stream.model)),
    requests: memory.requests.filter(
      (request) => concerns(request) && (verdict === '' || request.verdict.name === verdict),
    ),
    alerts: memory.alerts.filter(concerns),
    actions: memory.actions.filter(concerns),
  };
}

/** What there is to choose from; what is chosen stays in the list, also when its last request has gone. */
export function listChoices(memory: Memory, chosen: Filter): Readonly<Record<'model' | 'tenant', string[]>> {
  const models = [...memory.state.streams, ...memory.requests].map(({ model }) => model);
  const tenants = memory.requests.map(({ tenant }) => tenant);
  return { model: sortOut([...models, chosen.model]), tenant: sortOut([...tenants, chosen.tenant]) };
}

const sortOut = (names: readonly string[]): string[] =>
  [...new Set(names)].filter((name) => name !== '').sort();
