/**
 * vLLM (a014e35, August 2026). Per request: vllm/entrypoints/openai/*, `metrics.speculative_decoding` with
 * --per-request-spec-decode-metrics (PR 48915, after v0.28), in streams beside the usage, null for n > 1. Counters:
 * vllm/v1/spec_decode/metrics.py. Flags: vllm/engine/arg_utils.py. v0.28.0rc1 had `speculative_decoding_stats` on each
 * choice instead, with the histogram as an object.
 */
import type { Drafting, EngineAdapter, Findings, Seen } from './adapter.js';
import { askForUsage, draftingByCounters, estimatedFromStreams } from './adapter.js';
import { report, shownCount, shownText } from './adapter.js';
import { type Claim, type JsonObject, asList, asObject } from './claim.js';
import { vllmCounters } from './counters.js';
import { type Probes, serverInfoOf } from './probe.js';

export const perRequestFlag = '--per-request-spec-decode-metrics summary';
export const responseField = 'metrics.speculative_decoding of the response';
export const streamUsage =
  'In streams it comes with the usage: "stream_options": {"include_usage": true} in the request';

export const vllm: EngineAdapter = {
  name: 'vllm',
  title: 'vLLM',
  routes: ['/invocations', '/generate', '/inference/v1/generate', '/v1/audio/transcriptions'],
  chunk: 'step',
  ask: askForUsage,
  isResponse: (body) =>
    'kv_transfer_params' in body ||
    'prompt_logprobs' in body ||
    asObject(body.metrics)?.speculative_decoding !== undefined,
  read({ metrics, choices }) {
    const counts = asObject(asObject(metrics)?.speculative_decoding);
    if (counts !== undefined && 'num_accepted_draft_tokens' in counts) return [claimOf(counts)];
    return (asList(choices) ?? []).slice(0, 128).map((choice) => {
      const stats = asObject(asObject(choice)?.speculative_decoding_stats);
      return stats && claimOf(stats);
    });
  },
  owner: 'vllm',
  metricPrefix: /^vllm:/,
  counters: vllmCounters('vllm:', 'generation_tokens'),
  metricsRemedy: 'start it without --disable-log-stats',
  examine,
};

/** Also for servers with vLLM's fields. vLLM itself reports no times. */
export function claimOf(metrics: JsonObject): Claim {
  return {
    evidence: 'reported',
    steps: metrics.num_spec_steps,
    accepted: metrics.num_accepted_draft_tokens,
    proposed: metrics.num_draft_tokens,
    histogram: metrics.acceptance_histogram,
    perStepAccepted: metrics.per_step_accepted,
    perStepProposed: metrics.per_step_drafted,
    draftLength: metrics.num_spec_tokens,
    meanLength: metrics.mean_acceptance_length,
    isTree: metrics.is_tree === true,
  };
}

function examine(seen: Seen): Pick<Findings, 'drafting' | 'perRequest' | 'notes'> {
  const version = shownText(seen.probes.get('/version')?.json?.version);
  const level = readSetting(seen.probes, /per_request_spec_decode_metrics["']?\s*[=:]\s*["']?(\w+)/);
  const isReported = level === 'summary' || level === 'detailed';
  const minor = Number(/^0\.(\d+)/.exec(version ?? '')?.[1] ?? 29);
  return {
    drafting: { ...draftingByCounters(seen), ...readConfig(seen.probes) },
    perRequest: isReported
      ? report('on', responseField)
      : minor < 29
        ? report('off', `vLLM ${version ?? ''} cannot report it`, `vLLM 0.29 or later with ${perRequestFlag}`)
        : report(level === 'none' ? 'off' : 'unseen', responseField, perRequestFlag),
    notes: [
      `${streamUsage}, or --enable-force-include-usage for all requests.`,
      'Without per-request metrics, keep --stream-interval at 1: the guard then counts one chunk as one step.',
    ],
  };
}

/** From /server_info (VLLM_SERVER_DEV_MODE=1), which is an object or text. */
function readConfig(probes: Probes): Partial<Drafting> {
  const config = asObject(asObject(serverInfoOf(probes)?.vllm_config)?.speculative_config);
  if (config !== undefined)
    return {
      isOn: true,
      method: shownText(config.method),
      drafter: shownText(config.model),
      draftLength: shownCount(config.num_speculative_tokens),
    };
  const method = readSetting(probes, /SpeculativeConfig\(method='([^']{1,200})'/);
  const length = readSetting(probes, /SpeculativeConfig\([^)]{0,400}num_spec_tokens=(\d{1,4})/);
  return method === null || length === null ? {} : { isOn: true, method, draftLength: Number(length) };
}

function readSetting(probes: Probes, pattern: RegExp): string | null {
  return pattern.exec(probes.get('/server_info')?.text ?? '')?.[1] ?? null;
}

// LMDeploy (v0.11, lmdeploy/metrics/): vLLM's counters under its own prefix, and nothing per request.
export const lmdeploy: EngineAdapter = {
  name: 'lmdeploy',
  title: 'LMDeploy',
  routes: ['/generate'],
  ask: askForUsage,
  owner: 'lmdeploy',
  metricPrefix: /^lmdeploy:/,
  counters: vllmCounters('lmdeploy:', 'generation_tokens'),
  metricsRemedy: 'start it without --disable-metrics',
  examine: () => ({ perRequest: report('never', estimatedFromStreams) }),
};
