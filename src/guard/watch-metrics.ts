/** Judges an engine by its metrics alone: the time between two scrapes counts as one request of a single tenant. */
import type { Scrape, ScrapeOptions } from './engines/scrape.js';
import { asObservation, scrapeEngine } from './engines/scrape.js';
import type { JudgeOptions } from './judge/judge.js';
import { Judge } from './judge/judge.js';
import type { Alert, Verdict } from './judge/verdict.js';
import type { Observation } from './observation.js';

export interface WatchedWindow {
  readonly kind: 'window';
  /** All requests of one model. */
  readonly record: Observation;
  readonly verdict: Verdict;
  readonly alerts: readonly Alert[];
}

/** Besides windows, failures: no response or nothing to read; the next scrape may succeed. */
export type WatchedMetrics = WatchedWindow | Extract<Scrape, { kind: 'failure' }>;

/**
 * Runs until aborted. `url` is the address of the metrics.
 * @example
 * for await (const each of watchMetrics('http://127.0.0.1:8000/metrics', { signal }))
 *   if (each.kind === 'window') for (const { text } of each.alerts) console.error(text);
 */
export async function* watchMetrics(
  url: string,
  options: ScrapeOptions & JudgeOptions = {},
): AsyncGenerator<WatchedMetrics, void> {
  const judge = new Judge(options);
  for await (const scrape of scrapeEngine(url, options)) {
    if (scrape.kind === 'failure') {
      yield scrape;
      continue;
    }
    for (const aggregate of scrape.records) {
      const record = asObservation(aggregate);
      const { verdict, alerts } = judge.judge(record);
      yield { kind: 'window', record, verdict, alerts };
    }
  }
}
