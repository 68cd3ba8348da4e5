/**
 * Watching an engine through its metrics alone. Every scrape gives, for each model, what happened since the one before: one
 * record of many requests. A collapse of one among them shows only as far as it moves the sum, so that this sees a drafter
 * that died, or an attack on a large share of the traffic, and no more.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Fetch } from './bounded-get.js';
import { getBounded } from './bounded-get.js';
import type { EngineCounters } from './engine-counters.js';
import { differCounters, readEngineCounters } from './engine-counters.js';
import { parsePrometheusText } from './prometheus-text.js';
import type { EngineName, RequestRecord, Speculation } from './request-record.js';

/** Of all requests of a model together. */
export interface AggregateRecord {
  readonly engine: EngineName;
  readonly model: string | null;
  readonly endedMs: number;
  readonly windowMs: number;
  readonly speculation: Speculation;
}

export type Scrape =
  | { readonly kind: 'records'; readonly records: readonly AggregateRecord[] }
  /** The engine did not answer, or has nothing to read; the next scrape may be better. */
  | { readonly kind: 'failure'; readonly reason: string };

export interface ScrapeOptions {
  readonly intervalMs?: number;
  readonly timeoutMs?: number;
  readonly mostBytes?: number;
  readonly key?: string | undefined;
  readonly signal?: AbortSignal;
  readonly fetch?: Fetch;
  readonly now?: () => number;
  /** Between two scrapes; ends early when aborted. */
  readonly pause?: (milliseconds: number) => Promise<unknown>;
}

/** Until it is aborted. `url` is that of the metrics themselves, as http://localhost:8000/metrics. */
export async function* scrapeEngine(url: string, options: ScrapeOptions = {}): AsyncGenerator<Scrape, void> {
  const { intervalMs = 15_000, signal, now = Date.now } = options;
  const pause =
    options.pause ??
    ((milliseconds: number): Promise<unknown> =>
      wait(milliseconds, undefined, signal === undefined ? {} : { signal }).catch(() => undefined));
  const compare = createComparison();
  const address = new URL(url);
  const isOver = (): boolean => signal?.aborted === true;
  while (!isOver()) {
    const { status, text, failure, isCut } = await getBounded(address, options);
    if (isOver()) return;
    if (failure !== null) yield { kind: 'failure', reason: failure };
    else if (status !== 200) yield { kind: 'failure', reason: `it answered ${status}` };
    else if (isCut) yield { kind: 'failure', reason: 'its metrics are longer than what is read' };
    else yield compare(readEngineCounters(parsePrometheusText(text).samples), now());
    await pause(intervalMs);
  }
}

/** Takes scrapes in turn; the first has nothing to be compared with. */
export function createComparison(): (counters: readonly EngineCounters[], atMs: number) => Scrape {
  let before: { readonly counters: readonly EngineCounters[]; readonly atMs: number } | undefined;
  return (all, atMs) => {
    const last = before;
    if (all.length === 0) return { kind: 'failure', reason: 'it counts no drafts' };
    before = { counters: all, atMs };
    const records = all.flatMap((counters): AggregateRecord[] => {
      const { engine, model } = counters;
      const then = last?.counters.find((each) => each.engine === engine && each.model === model);
      if (last === undefined || then === undefined) return [];
      const speculation = differCounters(then, counters);
      if (speculation === null) return [];
      return [{ engine, model, endedMs: atMs, windowMs: atMs - last.atMs, speculation }];
    });
    return { kind: 'records', records };
  };
}

/** As if one request had been all of them, for whoever reads records of requests alone. */
export function asRequestRecord(record: AggregateRecord): RequestRecord {
  const { engine, model, endedMs, windowMs, speculation } = record;
  return {
    id: `scrape-${endedMs}-${model ?? ''}`,
    model: model ?? 'unknown',
    route: 'all',
    endedMs,
    engine,
    tenant: 'everyone',
    status: 200,
    ending: 'complete',
    upstream: 'speculative',
    isStream: false,
    promptTokens: null,
    completionTokens: null,
    firstByteMs: null,
    totalMs: windowMs,
    speculation,
    promptPrint: null,
  };
}
