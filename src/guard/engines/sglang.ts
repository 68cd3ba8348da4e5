/**
 * SGLang (cce0a12, August 2026). Native `meta_info`: python/sglang/srt/managers/tokenizer_manager.py, names since v0.5.12
 * with older aliases. OpenAI routes: `sglext.spec_tokens_details` when `return_spec_tokens_details` is set (PR 33518,
 * unreleased; entrypoints/openai/protocol.py), a list for several choices, in streams a chunk of its own. Metrics:
 * observability/metrics_collector.py. Old releases report only the number of verifications: there the first token comes
 * from the prompt's pass and every later one from a step.
 */
import { askForUsage, type EngineAdapter, report, shownCount, shownText } from './adapter.js';
import type { Claim, Claims, JsonObject } from './claim.js';
import { asCount, asList, asObject, firstOf } from './claim.js';
import { serverInfoOf } from './probe.js';

const acceptedNames = ['spec_num_correct_drafts', 'spec_accepted_drafts', 'spec_accept_token_num'];
const proposedNames = ['spec_num_proposed_drafts', 'spec_proposed_drafts', 'spec_draft_token_num'];
const histogramNames = ['spec_correct_drafts_histogram', 'spec_accept_histogram'];
const maxParts = 128;

export const sglang: EngineAdapter = {
  name: 'sglang',
  title: 'SGLang',
  routes: ['/generate', '/invocations', '/vertex_generate', '/api/generate', '/api/chat'],
  chunk: 'step',
  ask: {
    fields: (request) =>
      'messages' in request || 'prompt' in request
        ? { return_spec_tokens_details: true, ...askForUsage.fields(request) }
        : {},
    added: [['sglext', 'spec_tokens_details']],
  },
  isResponse: ({ sglext, metadata, meta_info: meta }) =>
    sglext !== undefined ||
    asObject(metadata)?.weight_version !== undefined ||
    asObject(meta)?.finish_reason !== undefined,
  read: readSglang,
  owner: 'sglang',
  isServer(probes) {
    const info = serverInfoOf(probes) ?? {};
    return 'speculative_algorithm' in info || 'internal_states' in info;
  },
  metricPrefix: /^sglang:/,
  counters: {
    drafts: 'sglang:spec_verify_calls',
    recentLength: 'sglang:spec_accept_length',
    outputTokens: 'sglang:generation_tokens',
  },
  metricsRemedy: '--enable-metrics',
  examine: ({ probes, counters }) => {
    const info = serverInfoOf(probes);
    const algorithm = shownText(info?.speculative_algorithm);
    const width = shownCount(info?.speculative_eagle_topk);
    return {
      version: shownText(info?.version),
      drafting: {
        isOn: info === undefined ? (counters === undefined ? null : true) : algorithm !== null,
        method: algorithm,
        drafter: shownText(info?.speculative_draft_model_path),
        draftLength: algorithm === null ? null : shownCount(info?.speculative_num_steps),
        isTree: algorithm === null || width === null ? null : width > 1,
      },
      perRequest: report(
        'asked',
        'meta_info of /generate always; sglext.spec_tokens_details of OpenAI routes when asked',
        '"return_spec_tokens_details": true in the request',
      ),
      notes: ['The gauges show the most recent batch: a short collapse can fall between two scrapes.'],
    };
  },
};

function readSglang(response: JsonObject): Claims {
  const details = asObject(response.sglext)?.spec_tokens_details;
  const listed = asList(details);
  if (listed !== undefined) return listed.slice(0, maxParts).map((each) => readDetails(each, {}));
  const own = readDetails(details, response) ?? readDetails(response.meta_info, response);
  if (own !== undefined) return [own];
  const choices = (asList(response.choices) ?? [{}]).slice(0, maxParts);
  const usage = choices.length === 1 ? response : {};
  return choices.map((choice) => readDetails(asObject(choice)?.meta_info, usage));
}

function readDetails(given: unknown, response: JsonObject): Claim | undefined {
  const details = asObject(given);
  const steps = details?.spec_verify_ct;
  if (details === undefined || steps === undefined) return undefined;
  const accepted = firstOf(details, acceptedNames);
  const proposed = firstOf(details, proposedNames);
  if (accepted !== undefined)
    return {
      evidence: 'reported',
      steps,
      accepted,
      proposed,
      histogram: firstOf(details, histogramNames),
      draftLength: evenDraftLength(steps, proposed),
    };
  const tokens = asCount(details.completion_tokens) ?? asCount(asObject(response.usage)?.completion_tokens);
  const counted = asCount(steps);
  if (tokens === undefined || counted === 0) return undefined; // 0 is also reported without a drafter
  return { evidence: 'derived', steps, accepted: Math.max(0, tokens - 1 - (counted ?? 0)) };
}

/** Proposed tokens are steps times the configured draft length, which is wrong where the length adapts. */
function evenDraftLength(steps: unknown, proposed: unknown): number | undefined {
  const [stepCount, proposedCount] = [asCount(steps), asCount(proposed)];
  if (stepCount === undefined || proposedCount === undefined || stepCount === 0) return undefined;
  const length = proposedCount / stepCount;
  return Number.isInteger(length) && length > 0 ? length : undefined;
}
