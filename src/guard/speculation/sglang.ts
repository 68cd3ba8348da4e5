/**
 * SGLang tells of every request in `meta_info` of its own routes, on the choice of some builds, and on OpenAI's routes in
 * `sglext.spec_tokens_details` (asked for by `return_spec_tokens_details`). Three generations of names are about. The
 * number of proposed tokens is its steps times the draft length as configured, so that it is no length where widths adapt.
 * Releases that count nothing but verifications leave the accepted tokens to be derived: the first token of an answer comes
 * from the prompt's own pass, every later one from a step.
 */
import type { JsonObject, Reading } from './reading.js';
import { asCount, asList, asObject, checkClaim, firstOf, onlyChoice } from './reading.js';

const acceptedNames = ['spec_num_correct_drafts', 'spec_accepted_drafts', 'spec_accept_token_num'];
const proposedNames = ['spec_num_proposed_drafts', 'spec_proposed_drafts', 'spec_draft_token_num'];
const histogramNames = ['spec_correct_drafts_histogram', 'spec_accept_histogram'];

export function readSglang(body: unknown): Reading | undefined {
  const results = asList(body);
  if (results !== undefined && results.length > 1 && hasTelemetry(asObject(results[0])?.meta_info))
    return { refusal: `The engine tells of ${results.length} answers at once.` };
  const answer = asObject(results?.length === 1 ? results[0] : body);
  if (answer === undefined) return undefined;
  const told = [
    asObject(answer.sglext)?.spec_tokens_details,
    answer.meta_info,
    onlyChoice(answer)?.meta_info,
  ].find(hasTelemetry);
  return told === undefined ? undefined : readTold(told, answer);
}

function hasTelemetry(value: unknown): value is JsonObject {
  return asObject(value)?.spec_verify_ct !== undefined;
}

function readTold(told: JsonObject, answer: JsonObject): Reading | undefined {
  const steps = told.spec_verify_ct;
  const accepted = firstOf(told, acceptedNames);
  const proposed = firstOf(told, proposedNames);
  if (accepted !== undefined)
    return checkClaim({
      evidence: 'reported',
      steps,
      accepted,
      proposed,
      histogram: firstOf(told, histogramNames),
      draftLength: evenDraftLength(steps, proposed),
    });
  const tokens = asCount(told.completion_tokens) ?? asCount(asObject(answer.usage)?.completion_tokens);
  if (tokens === undefined) return undefined;
  const counted = asCount(steps);
  if (counted === 0) return undefined; // said of every request, also where nothing is drafted
  return checkClaim({ evidence: 'derived', steps, accepted: Math.max(0, tokens - 1 - (counted ?? 0)) });
}

function evenDraftLength(steps: unknown, proposed: unknown): number | undefined {
  const [stepCount, proposedCount] = [asCount(steps), asCount(proposed)];
  if (stepCount === undefined || proposedCount === undefined || stepCount === 0) return undefined;
  const length = proposedCount / stepCount;
  return Number.isInteger(length) && length > 0 ? length : undefined;
}
