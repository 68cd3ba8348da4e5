/**
 * vLLM tells of a request in `metrics.speculative_decoding` (started with --per-request-spec-decode-metrics summary or
 * detailed), in streams on the chunk of the usage. A release candidate had it on every choice as
 * `speculative_decoding_stats`, with the histogram as an object. The field is null for several choices or prompts.
 */
import type { JsonObject, Reading } from './reading.js';
import { asList, asObject, checkClaim } from './reading.js';

export function readVllm(body: unknown): Reading | undefined {
  const answer = asObject(body);
  if (answer === undefined) return undefined;
  const told = asObject(asObject(answer.metrics)?.speculative_decoding);
  if (told !== undefined && 'num_accepted_draft_tokens' in told) return readTold(told);
  const choices = asList(answer.choices) ?? [];
  const [first] = choices;
  const older = asObject(asObject(first)?.speculative_decoding_stats);
  if (older === undefined) return undefined;
  if (choices.length > 1) return { refusal: `The engine tells of ${choices.length} choices at once.` };
  return readTold(older);
}

/** Also of servers that speak like vLLM. */
export function readTold(told: JsonObject): Reading {
  return checkClaim({
    evidence: 'reported',
    steps: told.num_spec_steps,
    accepted: told.num_accepted_draft_tokens,
    proposed: told.num_draft_tokens,
    histogram: told.acceptance_histogram,
    perStepAccepted: told.per_step_accepted,
    perStepProposed: told.per_step_drafted,
    draftLength: told.num_spec_tokens,
    meanLength: told.mean_acceptance_length,
    isTree: told.is_tree === true,
  });
}
