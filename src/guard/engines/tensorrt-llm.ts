/**
 * TensorRT-LLM (1.3, tensorrt_llm/serve/openai_protocol.py). Each choice has `avg_decoded_tokens_per_iter`, the accepted
 * length itself; with the tokens of the response it gives the steps. Metrics: tensorrt_llm/metrics/collector.py.
 */
import { askForUsage, draftingByCounters, type EngineAdapter, report } from './adapter.js';
import { type Claims, type JsonObject, asCount, asList, asObject } from './claim.js';

const metricsRemedy =
  '"return_perf_metrics: true" and "enable_iter_perf_stats: true" in the YAML of --extra_llm_api_options';

export const tensorRtLlm: EngineAdapter = {
  name: 'tensorrt-llm',
  title: 'TensorRT-LLM',
  routes: ['/generate', '/v2/models/ensemble/generate', '/v2/models/ensemble/generate_stream'],
  chunk: 'step',
  ask: askForUsage,
  isResponse: ({ choices }) => 'avg_decoded_tokens_per_iter' in (asObject(asList(choices)?.[0]) ?? {}),
  read: readTensorRtLlm,
  owner: 'tensorrt_llm',
  metricPrefix: /^trtllm_/,
  counters: {
    draftTokens: 'trtllm_spec_decode_num_draft_tokens',
    acceptedTokens: 'trtllm_spec_decode_num_accepted_tokens',
    perPosition: 'trtllm_spec_decode_num_accepted_tokens_per_pos',
    recentLength: 'trtllm_spec_decode_acceptance_length',
    configuration: 'trtllm_speculative_config_info',
    outputTokens: 'trtllm_generation_tokens',
  },
  examine: (seen) => ({
    drafting: draftingByCounters(seen, false),
    perRequest: report('on', 'avg_decoded_tokens_per_iter of every choice, which is the accepted length'),
    aggregate:
      seen.counters === undefined
        ? report('off', '/prometheus/metrics counts no drafts', metricsRemedy)
        : report('on', 'counters in /prometheus/metrics'),
    notes: [
      'If acceptance_rate_threshold is set, one period of low acceptance turns speculation off for all tenants until a restart.',
      '/metrics was not read: reading it removes what it shows.',
    ],
  }),
};

function readTensorRtLlm(response: JsonObject): Claims {
  const choices = (asList(response.choices) ?? []).slice(0, 128).map((each) => asObject(each) ?? {});
  const tokens = asObject(response.usage)?.completion_tokens;
  const means = choices.map((choice) => choice.avg_decoded_tokens_per_iter);
  if (means.length <= 1) return readMean(means[0], tokens);
  // The usage has the tokens of all choices together; their mean length is then the best there is.
  const numbers = means.filter((mean) => typeof mean === 'number');
  if (numbers.length < means.length) return [];
  return readMean(numbers.length / numbers.reduce((sum, mean) => sum + 1 / mean, 0), tokens);
}

function readMean(mean: unknown, completionTokens: unknown): Claims {
  if (mean === undefined || mean === null) return [];
  if (typeof mean !== 'number' || !(mean >= 1 && mean <= 1025))
    return [{ refusal: 'The engine reports an accepted length that is not a number from 1 to 1025.' }];
  const tokens = asCount(completionTokens);
  if (tokens === undefined || tokens === 0) return []; // chunks before the last have no usage
  const steps = Math.min(tokens, Math.max(1, Math.round(tokens / mean)));
  return [{ evidence: 'derived', steps, accepted: tokens - steps }];
}
