/**
 * OpenTelemetry attributes of requests, alerts and actions, for the event log. The conventions for generative AI
 * (open-telemetry/semantic-conventions-genai) have no names for speculation, so those are ours.
 */
import type { ActionEvent, Alert, Verdict } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import { meanAcceptedLength } from '../observation.js';

export type AttributeValue = string | number | boolean;
export type Attributes = Readonly<Record<string, AttributeValue>>;

export const attributeNames = {
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  model: 'gen_ai.request.model',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  errorType: 'error.type',
  status: 'http.response.status_code',
  route: 'http.route',
  requestId: 'mistletoe.request.id',
  tenant: 'mistletoe.tenant',
  upstream: 'mistletoe.upstream',
  ending: 'mistletoe.ending',
  isStream: 'mistletoe.stream',
  totalMs: 'mistletoe.duration_ms',
  firstByteMs: 'mistletoe.first_byte_ms',
  evidence: 'mistletoe.speculation.evidence',
  steps: 'mistletoe.speculation.steps',
  accepted: 'mistletoe.speculation.accepted_tokens',
  proposed: 'mistletoe.speculation.draft_tokens',
  length: 'mistletoe.speculation.accepted_length',
  draftLength: 'mistletoe.speculation.draft_length',
  verdict: 'mistletoe.verdict.name',
  reason: 'mistletoe.verdict.reason',
  breakEven: 'mistletoe.verdict.break_even',
  upperBound: 'mistletoe.verdict.upper_bound',
  rank: 'mistletoe.verdict.rank',
  clientRequestId: 'mistletoe.request.client_id',
  engineRequestId: 'gen_ai.response.id',
  measure: 'mistletoe.measure',
  alertId: 'mistletoe.alert.id',
  alertCause: 'mistletoe.alert.cause',
  alertCount: 'mistletoe.alert.count',
  alertRequests: 'mistletoe.alert.requests',
  alertProbability: 'mistletoe.alert.probability',
  action: 'mistletoe.action.name',
  change: 'mistletoe.action.change',
} as const;

type AttributeKey = keyof typeof attributeNames;

/** Unknown values are left out. */
function name(values: Readonly<Partial<Record<AttributeKey, AttributeValue | null>>>): Attributes {
  const named: Record<string, AttributeValue> = {};
  for (const [key, value] of Object.entries(values)) {
    if (value !== null) named[attributeNames[key as AttributeKey]] = value;
  }
  return named;
}

export function requestAttributes(record: Observation, verdict: Verdict): Attributes {
  const { speculation, promptTokens, completionTokens, status, ending } = record;
  return name({
    operation:
      record.route.includes('chat') || record.route.endsWith('messages') ? 'chat' : 'text_completion',
    provider: record.engine === 'unknown' ? null : record.engine,
    model: record.model,
    ...{ inputTokens: promptTokens, outputTokens: completionTokens, status, route: record.route },
    errorType: ending === 'complete' && status < 400 ? null : ending === 'complete' ? String(status) : ending,
    ...{ requestId: record.id, tenant: record.tenant, upstream: record.upstream, ending },
    ...{ isStream: record.isStream, totalMs: record.totalMs, firstByteMs: record.firstByteMs },
    ...{ verdict: verdict.name, reason: verdict.reason, breakEven: verdict.numbers.breakEven },
    ...{ upperBound: verdict.numbers.upperBound, rank: verdict.numbers.rank },
    clientRequestId: record.clientRequestId ?? null,
    engineRequestId: record.engineRequestId ?? null,
    measure: record.measure ?? null,
    evidence: speculation?.evidence ?? null,
    steps: speculation?.steps ?? null,
    accepted: speculation?.accepted ?? null,
    proposed: speculation?.proposed ?? null,
    draftLength: speculation?.draftLength ?? null,
    length: speculation === null ? null : meanAcceptedLength(speculation),
  });
}

export function alertAttributes(alert: Alert): Attributes {
  const { id, cause, count, requests, probability, tenant, requestId, model, route } = alert;
  return name({
    ...{ model, route, tenant, requestId, alertId: id, alertCause: cause },
    ...{ alertCount: count, alertRequests: requests, alertProbability: probability },
  });
}

export function actionAttributes(event: ActionEvent): Attributes {
  const { action, change, tenant, model, requestId, alertId } = event;
  return name({ action, change, tenant, model, requestId, alertId });
}
