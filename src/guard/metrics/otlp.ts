/**
 * Exports alerts, actions and verdicts as log records over OTLP/HTTP (opentelemetry-proto, logs/v1, JSON encoding). Where the
 * receiver is down they are dropped and counted, and requests never wait.
 */
import type { Attributes, AttributeValue } from './telemetry-names.js';

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
