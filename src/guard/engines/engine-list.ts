/** All engines, and which of them wrote a body. An engine is recognized by what only it writes. */
import type { EngineName, Speculation } from '../observation.js';
import { askForUsage, draftingByCounters, type EngineAdapter } from './adapter.js';
import { report, shownCount, shownText } from './adapter.js';
import { asList, asObject, readClaims } from './claim.js';
import { type Probes, metricsOf, modelsOf } from './probe.js';
import { llamaCpp } from './llama-cpp.js';
import { lmdeploy, vllm } from './vllm.js';
import { mistletoe } from './mistletoe.js';
import { sglang } from './sglang.js';
import { tensorRtLlm } from './tensorrt-llm.js';

// Text Generation Inference (v3.3, router/src/server.rs): a histogram whose observations are the accepted tokens of a step.
// Nothing per request, and streams send one event per token.
const tgi: EngineAdapter = {
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

/** Our own server has vLLM's fields and a signature, so it comes first. */
export const engines: readonly EngineAdapter[] = [
  mistletoe,
  vllm,
  sglang,
  tensorRtLlm,
  llamaCpp,
  lmdeploy,
  tgi,
];

export function adapterOf(name: EngineName | undefined): EngineAdapter | undefined {
  return engines.find((engine) => engine.name === name);
}

export interface FoundSpeculation {
  readonly engine: EngineName;
  readonly speculation: Speculation | null;
  /** Why telemetry that was there was rejected. */
  readonly refusal: string | null;
}

const maxResponses = 128;

/**
 * `body` is a response, or a chunk of a stream, as parsed from JSON.
 * @example
 * findSpeculation(await response.json()); // { engine: 'vllm', speculation: { steps: 41, accepted: 87, ... }, refusal: null }
 */
export function findSpeculation(body: unknown): FoundSpeculation {
  // SGLang responds to several prompts with a list.
  const responses = (asList(body) ?? [body]).slice(0, maxResponses).map((each) => asObject(each) ?? {});
  for (const { name: engine, read } of engines) {
    const reading = read && readClaims(responses.flatMap(read));
    if (reading !== undefined) return { engine, speculation: null, refusal: null, ...reading };
  }
  const known = engines.find(({ isResponse }) => isResponse?.(responses[0] ?? {}) === true);
  return { engine: known?.name ?? 'unknown', speculation: null, refusal: null };
}

/** The header x-mistletoe-engine may end in a version, as in mistletoe/0.2.0. */
export function parseEngineName(name: string | null | undefined): EngineName | undefined {
  if (name === null || name === undefined) return undefined; // nearly every response
  const [given] = name.split('/', 1);
  return engines.find((engine) => engine.name === given)?.name;
}

/** The list of models comes first, because everything else may be from a proxy in front of the engine. */
export function recognizeServer(probes: Probes): EngineName {
  for (const { engineHeader } of probes.values()) {
    const named = parseEngineName(engineHeader);
    if (named !== undefined) return named;
  }
  const owners = modelsOf(probes).map(({ owned_by: owner }) => owner);
  const metrics = metricsOf(probes) ?? [];
  const found =
    engines.find(({ owner }) => owner !== undefined && owners.includes(owner)) ??
    engines.find(({ isServer }) => isServer?.(probes) === true) ??
    engines.find(({ metricPrefix }) => metrics.some(({ name }) => metricPrefix.test(name)));
  return found?.name ?? 'unknown';
}
