/** Counters under watch: what happened between two scrapes is taken for one request of everybody's. */
import type { Alarm } from './alarm.js';
import type { MonitorOptions } from './monitor.js';
import { Monitor } from './monitor.js';
import type { Verdict } from './page-state.js';
import type { RequestRecord } from './request-record.js';
import type { Scrape, ScrapeOptions } from './engines/scrape.js';
import { asObservation, scrapeEngine } from './engines/scrape.js';

export interface WatchedWindow {
  readonly kind: 'window';
  /** Of one model, as if one request had been all of them. */
  readonly record: RequestRecord;
  readonly verdict: Verdict;
  readonly alarms: readonly Alarm[];
}

/** Beside windows it gives failures: the engine did not answer, or has nothing to read; the next scrape may be better. */
export type WatchedMetrics = WatchedWindow | Extract<Scrape, { kind: 'failure' }>;

/**
 * Until it is aborted. `url` is that of the metrics themselves.
 * @example
 * for await (const each of watchMetrics('http://127.0.0.1:8000/metrics', { signal }))
 *   if (each.kind === 'window') for (const { text } of each.alarms) console.error(text);
 */
export async function* watchMetrics(
  url: string,
  options: ScrapeOptions & MonitorOptions = {},
): AsyncGenerator<WatchedMetrics, void> {
  const monitor = new Monitor(options);
  for await (const scrape of scrapeEngine(url, options)) {
    if (scrape.kind === 'failure') {
      yield scrape;
      continue;
    }
    for (const aggregate of scrape.records) {
      const record = asObservation(aggregate);
      yield { kind: 'window', record, ...monitor.observe(record) };
    }
  }
}
