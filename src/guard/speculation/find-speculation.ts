/**
 * Which engine wrote a body, and what it tells of its drafts. Engines are known by what only they write: names that two of
 * them share (`acceptance_histogram`, `num_spec_steps`) say nothing. What is recognised and contradicts itself counts as no
 * telemetry, with the reason.
 */
import type { EngineName, Speculation } from '../request-record.js';
import { engineNames } from '../request-record.js';
import { readLlamaCpp, readMlxVlm } from './llama-cpp.js';
import { isMistletoe, readMistletoe } from './mistletoe.js';
import type { EngineReader, JsonObject } from './reading.js';
import { asList, asObject } from './reading.js';
import { readSglang } from './sglang.js';
import { readTensorRtLlm } from './tensorrt-llm.js';
import { readVllm } from './vllm.js';

export interface Finding {
  readonly engine: EngineName;
  readonly speculation: Speculation | null;
  /** Why telemetry that is there was not used. */
  readonly refusal: string | null;
}

const readers: readonly (readonly [EngineName, EngineReader])[] = [
  ['mistletoe', readMistletoe],
  ['vllm', readVllm],
  ['sglang', readSglang],
  ['tensorrt-llm', readTensorRtLlm],
  ['unknown', readMlxVlm],
  ['llama-cpp', readLlamaCpp],
];

/**
 * `body` is a whole answer, or a chunk of a stream, as parsed from JSON.
 * @example
 * findSpeculation(await response.json()); // { engine: 'vllm', speculation: { steps: 41, accepted: 87, ... }, refusal: null }
 */
export function findSpeculation(body: unknown): Finding {
  for (const [engine, read] of readers) {
    const reading = read(body);
    if (reading === undefined) continue;
    return 'refusal' in reading
      ? { engine, speculation: null, refusal: reading.refusal }
      : { engine, speculation: reading.speculation, refusal: null };
  }
  return { engine: recogniseEngine(body), speculation: null, refusal: null };
}

/** By the fields of a silent answer. */
export function recogniseEngine(body: unknown): EngineName {
  const answer = asObject(asList(body)?.[0] ?? body);
  if (answer === undefined) return 'unknown';
  const choice = asObject(asList(answer.choices)?.[0]);
  return signatures.find(([, isOf]) => isOf(answer, choice ?? {}))?.[0] ?? 'unknown';
}

type Signature = (answer: JsonObject, choice: JsonObject) => boolean;

const signatures: readonly (readonly [EngineName, Signature])[] = [
  ['mistletoe', isMistletoe],
  [
    'sglang',
    ({ sglext, metadata }) => sglext !== undefined || asObject(metadata)?.weight_version !== undefined,
  ],
  ['sglang', ({ meta_info: meta }) => asObject(meta)?.finish_reason !== undefined],
  ['llama-cpp', ({ timings }) => asObject(timings)?.predicted_n !== undefined],
  ['tensorrt-llm', (_, choice) => 'avg_decoded_tokens_per_iter' in choice],
  ['vllm', (answer) => 'kv_transfer_params' in answer || 'prompt_logprobs' in answer],
  ['vllm', ({ metrics }) => asObject(metrics)?.speculative_decoding !== undefined],
];

/** Of the header `x-mistletoe-engine`, where a version may follow (mistletoe/0.2.0), or wherever an operator names one. */
export function parseEngineName(name: string | null | undefined): EngineName | undefined {
  const [given] = (name ?? '').split('/', 1);
  return engineNames.find((known) => known === given);
}
