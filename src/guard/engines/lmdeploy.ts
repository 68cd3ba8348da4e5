/** LMDeploy (v0.11, lmdeploy/metrics/): vLLM's counters under its own prefix, and nothing per request. */
import type { EngineAdapter } from './adapter.js';
import {
  askForUsage,
  countersTelemetry,
  draftingByCounters,
  estimatedFromStreams,
  report,
} from './adapter.js';
import { vllmCounters } from './counters.js';

export const lmdeploy: EngineAdapter = {
  name: 'lmdeploy',
  title: 'LMDeploy',
  routes: ['/generate'],
  ask: askForUsage,
  owner: 'lmdeploy',
  metricPrefix: /^lmdeploy:/,
  counters: vllmCounters('lmdeploy:', 'generation_tokens'),
  examine: (seen) => ({
    version: null,
    drafting: draftingByCounters(seen),
    perRequest: report('never', estimatedFromStreams),
    aggregate: countersTelemetry(seen, 'start it without --disable-metrics'),
    notes: [],
  }),
};
