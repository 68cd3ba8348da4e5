/** Our own server (src/serve): vLLM's fields, plus a signature and trees. */
import type { EngineAdapter, Telemetry } from './adapter.js';
import { askForUsage, draftingByCounters, report, shownText } from './adapter.js';
import { type JsonObject, asList, asObject } from './claim.js';
import { vllmCounters } from './counters.js';
import { modelsOf } from './probe.js';
import { perRequestFlag, claimOf, responseField, streamUsage } from './vllm.js';

export const mistletoe: EngineAdapter = {
  name: 'mistletoe',
  title: 'mistletoe serve',
  routes: [],
  chunk: 'step',
  ask: { ...askForUsage, addsNullUsage: true },
  isResponse: isMistletoe,
  read(response) {
    if (!isMistletoe(response)) return [];
    const { speculative_decoding: drafts, mistletoe: own, choices } = asObject(response.metrics) ?? {};
    const { plain_steps: plain, decode_ms: ms } = asObject(own) ?? {};
    // Answers of one request share passes, so only a single one has a time per step.
    const timePer = (steps: unknown): number | undefined =>
      choices === undefined ? Number(ms) / Number(steps) : undefined;
    const metrics = asObject(drafts);
    if (metrics !== undefined)
      return [{ ...claimOf(metrics), stepMs: plain === 0 ? timePer(metrics.num_spec_steps) : undefined }];
    if (plain === undefined || plain === 0) return [];
    return [{ evidence: 'reported', steps: plain, accepted: 0, proposed: 0, stepMs: timePer(plain) }];
  },
  owner: 'mistletoe',
  metricPrefix: /^mistletoe_/,
  counters: vllmCounters('vllm:', 'generation_tokens'),
  metricsRemedy: 'let GET /metrics through the proxy in front of the server',
  examine: (seen) => {
    const [model = {}] = modelsOf(seen.probes);
    const own = asObject(model.mistletoe) ?? {};
    const drafters = (asList(own.drafters) ?? []).flatMap((name) => shownText(name) ?? []);
    const header = seen.probes.get('/v1/models')?.engineHeader ?? '';
    const byCounters = draftingByCounters(seen);
    return {
      version: shownText(header.split('/')[1]),
      drafting: {
        ...byCounters,
        isOn: drafters.length > 0 ? true : byCounters.isOn,
        method: shownText(own.draft),
        drafter: shownText(drafters.join(', ')),
      },
      perRequest: describeLevel(own.metrics),
      notes: [`${streamUsage}.`],
    };
  },
  limitDrafts: (draftLength) => ['mistletoe', { draft: `chain:${Math.max(1, draftLength)}` }],
};

function isMistletoe(response: JsonObject): boolean {
  const { system_fingerprint: fingerprint } = response;
  const isSigned = typeof fingerprint === 'string' && /^mistletoe\b/.test(fingerprint);
  return isSigned || asObject(response.metrics)?.engine === 'mistletoe';
}

/** Versions that do not list their level are older than it. */
function describeLevel(level: unknown): Telemetry {
  if (level === 'summary' || level === 'detailed') return report('on', `${responseField}, ${level}`);
  const asking = 'with "mistletoe": {"metrics": "summary"} in the request';
  return level === 'none'
    ? report('asked', `${responseField}, ${asking}`, perRequestFlag)
    : report('unseen', responseField, perRequestFlag);
}
