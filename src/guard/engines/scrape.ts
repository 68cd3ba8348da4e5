/**
 * Watches an engine through its metrics. The difference between two scrapes pools all requests of a model and is judged as
 * one request: it shows a broken drafter or an attack on much of the traffic, but not one collapsed request among many.
 */
import timers from 'node:timers/promises';
import { type JudgeOptions, Judge } from '../judge/judge.js';
import type { Alert, Verdict } from '../judge/verdict.js';
import type { Observation } from '../observation.js';
import { differCounters, type EngineCounters, parsePrometheusText, readEngineCounters } from './counters.js';
import { engines } from './engine-list.js';
import { type GetOptions, getBounded } from './probe.js';

export interface ScrapeOptions extends GetOptions, JudgeOptions {
  readonly intervalMs?: number;
}

export type WatchedMetrics =
  /** All requests of one model between two scrapes. */
  | {
      readonly kind: 'window';
      readonly record: Observation;
      readonly verdict: Verdict;
      readonly alerts: readonly Alert[];
    }
  /** No response, or nothing to read; the next scrape may succeed. */
  | { readonly kind: 'failure'; readonly reason: string };

/**
 * Runs until aborted. `url` is the address of the metrics.
 * @example
 * for await (const each of watchMetrics('http://127.0.0.1:8000/metrics', { signal }))
 *   if (each.kind === 'window') for (const { text } of each.alerts) console.error(text);
 */
export async function* watchMetrics(
  url: string,
  options: ScrapeOptions = {},
): AsyncGenerator<WatchedMetrics, void> {
  const { intervalMs = 15_000, signal } = options;
  const judge = new Judge(options);
  let before: Scrape | undefined;
  const isOver = (): boolean => signal?.aborted === true;
  while (!isOver()) {
    const scraped = await scrape(new URL(url), options);
    if (isOver()) return;
    if (typeof scraped === 'string') yield { kind: 'failure', reason: scraped };
    else {
      const after = { counters: scraped, atMs: Date.now() };
      for (const record of before === undefined ? [] : compare(before, after)) {
        const { verdict, alerts } = judge.judge(record);
        yield { kind: 'window', record, verdict, alerts };
      }
      before = after;
    }
    await timers.setTimeout(intervalMs, undefined, { signal }).catch(() => undefined); // when aborted
  }
}

/** The engine's counters, or why they cannot be read. */
export async function scrape(address: URL, options: GetOptions): Promise<readonly EngineCounters[] | string> {
  const { status, text, failure, isCut } = await getBounded(address, options);
  if (failure !== null) return failure;
  if (status !== 200) return `status ${String(status)}`;
  if (isCut) return 'the metrics are too large';
  const counters = readEngineCounters(parsePrometheusText(text), engines);
  return counters.length === 0 ? 'the metrics count no drafts' : counters;
}

interface Scrape {
  readonly counters: readonly EngineCounters[];
  readonly atMs: number;
}

function compare(before: Scrape, { counters, atMs }: Scrape): readonly Observation[] {
  return counters.flatMap((after): Observation[] => {
    const { engine, model } = after;
    const then = before.counters.find((each) => each.engine === engine && each.model === model);
    const speculation = then === undefined ? null : differCounters(then, after);
    if (speculation === null) return [];
    return [
      {
        id: `scrape-${atMs}-${model ?? ''}`,
        model: model ?? 'unknown',
        route: 'all',
        endedMs: atMs,
        engine,
        tenant: 'all',
        status: 200,
        ending: 'complete',
        upstream: 'speculative',
        isStream: false,
        promptTokens: null,
        completionTokens: null,
        firstByteMs: null,
        totalMs: atMs - before.atMs,
        speculation,
      },
    ];
  });
}
