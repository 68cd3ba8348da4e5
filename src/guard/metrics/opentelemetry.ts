/** OpenTelemetry: attributes, and their export. Its conventions for generative AI have no names for speculation, so those are ours. */
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

// Exports alerts, actions and verdicts as log records over OTLP/HTTP (opentelemetry-proto, logs/v1, JSON encoding). Where the
// receiver is down they are dropped and counted, and requests never wait.
export interface OtlpOptions {
  /** Base address, such as http://127.0.0.1:4318. */
  readonly endpoint: string;
  readonly version: string;
  readonly fetch?: typeof fetch;
  readonly onNotice?: (message: string) => void;
}

const flushEveryMs = 2000;
const timeoutMs = 5000;
const maxQueued = 2048;
const maxBatch = 512;

export function createOtlpExporter({ endpoint, version, fetch: send = fetch, onNotice }: OtlpOptions) {
  const url = `${endpoint.replace(/\/+$/, '')}/v1/logs`;
  let queue: object[] = [];
  let dropped = 0;
  let isFailing = false;

  const post = async (records: readonly object[]): Promise<void> => {
    try {
      const response = await send(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(toRequest(records, version)),
        signal: AbortSignal.timeout(timeoutMs),
      });
      await response.body?.cancel();
      if (!response.ok) throw new Error(`status ${response.status}`);
      isFailing = false;
    } catch (cause) {
      dropped += records.length;
      if (!isFailing) onNotice?.(`OTLP export to ${url} failed: ${String(cause)}`);
      isFailing = true;
    }
  };
  const flush = async (): Promise<void> => {
    const batch = queue;
    queue = [];
    for (let from = 0; from < batch.length; from += maxBatch) await post(batch.slice(from, from + maxBatch));
  };
  const timer = setInterval(() => void flush(), flushEveryMs);
  timer.unref();
  return {
    add(name: string, attributes: Attributes, text: string): void {
      if (queue.length >= maxQueued) dropped++;
      else queue.push(toRecord(name, attributes, text));
    },
    /** Records that were not delivered. */
    get dropped(): number {
      return dropped;
    },
    flush,
    async close(): Promise<void> {
      clearInterval(timer);
      await flush();
    },
  };
}

function toRecord(name: string, attributes: Attributes, text: string): object {
  const [severityNumber, severityText] = name === 'alert' ? [13, 'WARN'] : [9, 'INFO'];
  return {
    ...{ timeUnixNano: `${Date.now()}000000`, severityNumber, severityText },
    ...{ eventName: `mistletoe.${name}`, body: { stringValue: text }, attributes: toAttributes(attributes) },
  };
}

function toRequest(logRecords: readonly object[], version: string): object {
  const attributes = toAttributes({ 'service.name': 'mistletoe-guard', 'service.version': version });
  const scopeLogs = [{ scope: { name: 'mistletoe', version }, logRecords }];
  return { resourceLogs: [{ resource: { attributes }, scopeLogs }] };
}

const toAttributes = (attributes: Attributes): object[] =>
  Object.entries(attributes).map(([key, value]) => ({ key, value: toValue(value) }));

function toValue(value: AttributeValue): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
