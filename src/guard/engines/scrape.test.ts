import timers from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { WatchedMetrics } from './scrape.js';
import { watchMetrics } from './scrape.js';

const page = (drafts: number, accepted: number): Response =>
  new Response(
    `vllm:spec_decode_num_drafts_total{model_name="m"} ${drafts}\n` +
      `vllm:spec_decode_num_draft_tokens_total{model_name="m"} ${drafts * 3}\n` +
      `vllm:spec_decode_num_accepted_tokens_total{model_name="m"} ${accepted}\n`,
  );

afterEach(() => {
  vi.restoreAllMocks();
});

/** One answer a scrape; then it is aborted. */
async function scrapeAll(answers: readonly (() => Response)[], maxBytes = 1000): Promise<WatchedMetrics[]> {
  const abort = new AbortController();
  const found: WatchedMetrics[] = [];
  let asked = 0;
  vi.spyOn(Date, 'now').mockImplementation(() => 1000 * asked);
  vi.spyOn(timers, 'setTimeout').mockImplementation(() => {
    if (asked === answers.length) abort.abort();
    return Promise.resolve(undefined as never);
  });
  const watched = watchMetrics('http://localhost:8000/metrics', {
    fetch: () => Promise.resolve().then(() => answers[asked++]!()),
    maxBytes,
    signal: abort.signal,
  });
  for await (const each of watched) found.push(each);
  return found;
}

describe('watchMetrics', () => {
  it('judges what happened between scrapes, over failures and a restart', async () => {
    const found = await scrapeAll([
      () => page(100, 200),
      () => page(110, 215),
      () => new Response('busy', { status: 503 }),
      () => {
        throw new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED') });
      },
      () => page(120, 220),
      () => page(4, 1),
      () => new Response('up 1'),
    ]);
    const window = (endedMs: number, totalMs: number, speculation: object): object => ({
      kind: 'window',
      record: { engine: 'vllm', model: 'm', tenant: 'all', endedMs, totalMs, speculation },
      verdict: { name: 'learning' },
    });
    expect(found).toMatchObject([
      window(2000, 1000, { steps: 10, accepted: 15, proposed: 30 }),
      { kind: 'failure', reason: 'status 503' },
      { kind: 'failure', reason: 'connect ECONNREFUSED' },
      window(5000, 3000, { steps: 10, accepted: 5 }),
      window(6000, 1000, { steps: 4, accepted: 1 }),
      { kind: 'failure', reason: 'the metrics count no drafts' },
    ]);
  });

  it('does not read more than it may', async () => {
    expect(await scrapeAll([() => page(1, 1)], 50)).toEqual([
      { kind: 'failure', reason: 'the metrics are too large' },
    ]);
  });
});
