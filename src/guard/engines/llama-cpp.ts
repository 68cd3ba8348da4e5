/**
 * llama.cpp server (b21e4de, August 2026; tools/server/server-common.cpp, server-task.cpp). `timings` has draft_n and
 * draft_n_accepted only if something was drafted, and no step count: every pass gives one token besides the accepted
 * ones, so steps = predicted_n - draft_n_accepted. /v1/responses and /v1/messages have no timings; with n > 1 there is
 * one `timings`, of one choice. The last chunk of a stream always has it.
 */
import { type EngineAdapter, report, shownText, unknownDrafting } from './adapter.js';
import { type Claims, type JsonObject, asCount, asObject } from './claim.js';
import { vllmCounters } from './counters.js';

export const llamaCpp: EngineAdapter = {
  name: 'llama-cpp',
  title: 'llama.cpp',
  routes: ['/completion', '/completions', '/chat/completions', '/infill', '/responses', '/api/chat'],
  chunk: 'token',
  isResponse: ({ timings }) => asObject(timings)?.predicted_n !== undefined,
  read: readLlamaCpp,
  owner: 'llamacpp',
  isServer: (probes) => 'default_generation_settings' in (probes.get('/props')?.json ?? {}),
  metricPrefix: /^llamacpp:/,
  counters: vllmCounters('llamacpp:', 'tokens_predicted'),
  metricsRemedy: '--metrics',
  examine: ({ probes, counters }) => {
    const isSpeculative = /"speculative":\s*true/.test(probes.get('/slots')?.text ?? '');
    return {
      version: shownText(probes.get('/props')?.json?.build_info),
      // /props shows defaults, not what runs; slots and counters do.
      drafting: {
        ...unknownDrafting,
        isOn: isSpeculative || (counters?.drafts ?? 0) > 0 ? true : null,
        draftLength: counters?.draftLength ?? null,
      },
      perRequest: report(
        'on',
        'timings of every response (draft_n, draft_n_accepted); steps follow from the tokens',
      ),
      notes: [
        '/v1/responses and /v1/messages carry no timings: the guard counts such requests as unreadable.',
      ],
    };
  },
  // Some builds ignore it.
  limitDrafts: (draftLength) => ['speculative.n_max', draftLength],
};

function readLlamaCpp(response: JsonObject): Claims {
  const timings = asObject(response.timings);
  // mlx-vlm has the same object with rounds, and counts otherwise.
  if (timings === undefined || !('predicted_n' in timings) || 'draft_rounds' in timings) return [];
  const { predicted_n: predicted, draft_n: proposed = 0, draft_n_accepted: accepted = 0 } = timings;
  const [tokens, acceptedTokens] = [asCount(predicted), asCount(accepted)];
  if (tokens === undefined || acceptedTokens === undefined)
    return [{ evidence: 'derived', steps: predicted, accepted, proposed }];
  if (tokens === 0) return [];
  // A response can end within a draft, whose last pass then gives no token of its own.
  const steps = Math.max(1, tokens - acceptedTokens);
  // The prompt's pass gives the first token and is not in predicted_ms.
  const stepMs = steps > 1 ? Number(timings.predicted_ms) / (steps - 1) : undefined;
  return [{ evidence: 'derived', steps, accepted, proposed, stepMs }];
}
