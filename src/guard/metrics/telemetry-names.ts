/** OpenTelemetry attributes. Its conventions for generative AI have no names for speculation, so those are ours. */
import type { ActionEvent, Alert, Verdict } from '../judge/verdict.js';
import { type Observation, meanAcceptedLength } from '../observation.js';

export type AttributeValue = string | number | boolean;
export type Attributes = Readonly<Record<string, AttributeValue>>;

/** Unknown values are left out. */
function known(values: Readonly<Record<string, AttributeValue | null | undefined>>): Attributes {
  const kept = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
  return Object.fromEntries(kept) as Attributes;
}

export function requestAttributes(record: Observation, { name, reason, numbers }: Verdict): Attributes {
  const { speculation, status, ending, route, engine } = record;
  const isChat = route.includes('chat') || route.endsWith('messages');
  const error = ending !== 'complete' ? ending : status >= 400 ? String(status) : null;
  return known({
    'gen_ai.operation.name': isChat ? 'chat' : 'text_completion',
    'gen_ai.provider.name': engine === 'unknown' ? null : engine,
    'gen_ai.request.model': record.model,
    'gen_ai.response.id': record.engineRequestId,
    'gen_ai.usage.input_tokens': record.promptTokens,
    'gen_ai.usage.output_tokens': record.completionTokens,
    'error.type': error,
    'http.response.status_code': status,
    'http.route': route,
    'mistletoe.request.id': record.id,
    'mistletoe.request.client_id': record.clientRequestId,
    'mistletoe.tenant': record.tenant,
    'mistletoe.upstream': record.upstream,
    'mistletoe.ending': ending,
    'mistletoe.stream': record.isStream,
    'mistletoe.duration_ms': record.totalMs,
    'mistletoe.first_byte_ms': record.firstByteMs,
    'mistletoe.measure': record.measure,
    'mistletoe.verdict.name': name,
    'mistletoe.verdict.reason': reason,
    'mistletoe.verdict.break_even': numbers.breakEven,
    'mistletoe.verdict.upper_bound': numbers.upperBound,
    'mistletoe.verdict.rank': numbers.rank,
    'mistletoe.speculation.evidence': speculation?.evidence,
    'mistletoe.speculation.steps': speculation?.steps,
    'mistletoe.speculation.accepted_tokens': speculation?.accepted,
    'mistletoe.speculation.draft_tokens': speculation?.proposed,
    'mistletoe.speculation.draft_length': speculation?.draftLength,
    'mistletoe.speculation.accepted_length': speculation && meanAcceptedLength(speculation),
  });
}

export const alertAttributes = (alert: Alert): Attributes =>
  known({
    'gen_ai.request.model': alert.model,
    'http.route': alert.route,
    'mistletoe.tenant': alert.tenant,
    'mistletoe.request.id': alert.requestId,
    'mistletoe.alert.id': alert.id,
    'mistletoe.alert.cause': alert.cause,
    'mistletoe.alert.count': alert.count,
    'mistletoe.alert.requests': alert.requests,
    'mistletoe.alert.probability': alert.probability,
  });

export const actionAttributes = (event: ActionEvent): Attributes =>
  known({
    'gen_ai.request.model': event.model,
    'mistletoe.action.name': event.action,
    'mistletoe.action.change': event.change,
    'mistletoe.tenant': event.tenant,
    'mistletoe.request.id': event.requestId,
    'mistletoe.alert.id': event.alertId,
  });
