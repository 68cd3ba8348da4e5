/**
 * Records, alarms and actions under the names that OpenTelemetry gives them, for whoever collects the event log. The
 * conventions for generative AI (open-telemetry/semantic-conventions-genai) know no speculation: those are ours.
 */
import type { ActionEvent, Alarm } from './alarm.js';
import type { EngineName, RequestRecord } from './request-record.js';
import { meanAcceptedLength } from './request-record.js';

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
  verdict: 'mistletoe.speculation.verdict',
  alarmId: 'mistletoe.alarm.id',
  alarmScope: 'mistletoe.alarm.scope',
  alarmCause: 'mistletoe.alarm.cause',
  alarmEvidence: 'mistletoe.alarm.e_value',
  expected: 'mistletoe.alarm.expected_length',
  action: 'mistletoe.action.name',
  change: 'mistletoe.action.change',
} as const;

type AttributeKey = keyof typeof attributeNames;

/** What is not known is left out. */
function name(values: Readonly<Partial<Record<AttributeKey, AttributeValue | null>>>): Attributes {
  const named: Record<string, AttributeValue> = {};
  for (const [key, value] of Object.entries(values)) {
    if (value !== null) named[attributeNames[key as AttributeKey]] = value;
  }
  return named;
}

export function requestAttributes(record: RequestRecord, verdict: string): Attributes {
  const { speculation, promptTokens, completionTokens, status, ending } = record;
  return name({
    operation:
      record.route.includes('chat') || record.route.endsWith('messages') ? 'chat' : 'text_completion',
    provider: providerOf(record.engine),
    model: record.model,
    ...{ inputTokens: promptTokens, outputTokens: completionTokens, status, route: record.route },
    errorType: ending === 'complete' && status < 400 ? null : ending === 'complete' ? String(status) : ending,
    ...{ requestId: record.id, tenant: record.tenant, upstream: record.upstream, ending },
    ...{ isStream: record.isStream, totalMs: record.totalMs, firstByteMs: record.firstByteMs, verdict },
    evidence: speculation?.evidence ?? null,
    steps: speculation?.steps ?? null,
    accepted: speculation?.accepted ?? null,
    proposed: speculation?.proposed ?? null,
    draftLength: speculation?.draftLength ?? null,
    length: speculation === null ? null : meanAcceptedLength(speculation),
  });
}

export function alarmAttributes(alarm: Alarm): Attributes {
  const { id, scope, cause, eValue, seen, steps, expected, tenant, requestId, model, route } = alarm;
  return name({
    ...{ model, route, tenant, requestId, steps, length: seen },
    ...{
      alarmId: id,
      alarmScope: scope,
      alarmCause: cause,
      alarmEvidence: eValue,
      expected: expected.middle,
    },
  });
}

export function actionAttributes({
  action,
  change,
  tenant,
  model,
  requestId,
  alarmId,
}: ActionEvent): Attributes {
  return name({ action, change, tenant, model, requestId, alarmId });
}

/** Well-known values are of vendors; engines have their own names. */
function providerOf(engine: EngineName): string | null {
  return engine === 'unknown' ? null : engine;
}
