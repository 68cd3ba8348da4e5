/**
 * Watches an engine through its metrics. The difference between two scrapes is one observation per model that pools all
 * requests: it shows a broken drafter or an attack on much of the traffic, but not one collapsed request among many.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { EngineName, Observation, Speculation } from '../observation.js';
import type { Fetch } from './bounded-get.js';
import { getBounded } from './bounded-get.js';
import type { EngineCounters } from './counters.js';
import { differCounters, readEngineCounters } from './counters.js';
import { engines } from './engine-list.js';
import { parsePrometheusText } from './prometheus-text.js';

/** All requests of a model in one interval. */
export interface AggregateRecord {
  readonly engine: EngineName;
  readonly model: string | null;
  readonly endedMs: number;
  readonly windowMs: number;
  readonly speculation: Speculation;
}

export type Scrape =
  | { readonly kind: 'records'; readonly records: readonly AggregateRecord[] }
  /** No response, or nothing to read; the next scrape may succeed. */
  | { readonly kind: 'failure'; readonly reason: string };

export interface ScrapeOptions {
  readonly intervalMs?: number;
  readonly timeoutMs?: number;
  readonly maxBytes?: number;
  readonly key?: string | undefined;
  readonly signal?: AbortSignal;
  readonly fetch?: Fetch;
  readonly now?: () => number;
  /** Waits between two scrapes; ends early when aborted. */
  readonly pause?: (milliseconds: number) => Promise<unknown>;
}

/** Runs until aborted. `url` is the address of the metrics, such as http://localhost:8000/metrics. */
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
    else if (status !== 200) yield { kind: 'failure', reason: `status ${status}` };
    else if (isCut) yield { kind: 'failure', reason: 'the metrics are too large' };
    else yield compare(readEngineCounters(parsePrometheusText(text).samples, engines), now());
    await pause(intervalMs);
  }
}

/** Call once per scrape; the first gives no records. */
export function createComparison(): (counters: readonly EngineCounters[], atMs: number) => Scrape {
  let before: { readonly counters: readonly EngineCounters[]; readonly atMs: number } | undefined;
  return (all, atMs) => {
    const last = before;
    if (all.length === 0) return { kind: 'failure', reason: 'the metrics count no drafts' };
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

/** The interval as one observation of a single tenant. */
export function asObservation(record: AggregateRecord): Observation {
  const { engine, model, endedMs, windowMs, speculation } = record;
  return {
    id: `scrape-${endedMs}-${model ?? ''}`,
    model: model ?? 'unknown',
    route: 'all',
    endedMs,
    engine,
    tenant: 'all',
    status: 200,
    ending: 'complete',
    upstream: 'speculative',
    isStream: false,
    promptTokens: null,
    completionTokens: null,
    firstByteMs: null,
    totalMs: windowMs,
    speculation,
  };
}
