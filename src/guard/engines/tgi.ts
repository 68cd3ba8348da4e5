/**
 * Text Generation Inference (v3.3, router/src/server.rs, server.rs metrics `tgi_request_skipped_tokens`): a histogram whose
 * observations are the accepted tokens of a step. Nothing per request, and streams send one event per token.
 */
import {
  askForUsage,
  draftingByCounters,
  type EngineAdapter,
  report,
  shownCount,
  shownText,
} from './adapter.js';

export const tgi: EngineAdapter = {
  name: 'tgi',
  title: 'Text Generation Inference',
  routes: ['/', '/generate', '/generate_stream', '/invocations'],
  chunk: 'token',
  ask: askForUsage,
  isResponse: ({ details, generated_text: text }) => details !== undefined && text !== undefined,
  isServer(probes) {
    const router = probes.get('/info')?.json?.router;
    return typeof router === 'string' && router.startsWith('text-generation-router');
  },
  metricPrefix: /^tgi_/,
  counters: { drafts: 'tgi_request_skipped_tokens_count', acceptedTokens: 'tgi_request_skipped_tokens_sum' },
  examine: (seen) => {
    const info = seen.probes.get('/info')?.json;
    return {
      version: shownText(info?.version),
      drafting: { ...draftingByCounters(seen, false), draftLength: shownCount(info?.speculate) },
      perRequest: report('never', 'watch its metrics with guard --scrape'),
      aggregate:
        seen.counters === undefined
          ? report('off', 'tgi_request_skipped_tokens is not in /metrics', '--speculate N')
          : report('on', 'the histogram tgi_request_skipped_tokens in /metrics'),
    };
  },
};
