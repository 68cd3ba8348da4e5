/**
 * TensorRT-LLM gives every choice `avg_decoded_tokens_per_iter`, which is the accepted length itself: with the tokens of
 * the answer the steps follow. A proposed object `speculative_decoding` on the choice counts them; it shares names with
 * vLLM's, so that it is known by its totals alone.
 */
import type { Reading } from './reading.js';
import { asCount, asList, asObject, checkClaim, onlyChoice } from './reading.js';

export function readTensorRtLlm(body: unknown): Reading | undefined {
  const answer = asObject(body);
  if (answer === undefined) return undefined;
  const choice = onlyChoice(answer);
  if (choice === undefined) {
    const choices = asList(answer.choices) ?? [];
    const isTold = asObject(asObject(choices[0])?.speculative_decoding)?.total_accepted_draft_tokens;
    return isTold === undefined
      ? undefined
      : { refusal: `The engine tells of ${choices.length} choices at once.` };
  }
  const told = asObject(choice.speculative_decoding);
  if (told !== undefined && 'total_accepted_draft_tokens' in told)
    return checkClaim({
      evidence: 'reported',
      steps: told.num_spec_steps,
      accepted: told.total_accepted_draft_tokens,
      proposed: told.total_draft_tokens,
      histogram: told.acceptance_histogram,
      draftLength: told.num_spec_tokens,
    });
  return readMean(choice.avg_decoded_tokens_per_iter, asObject(answer.usage)?.completion_tokens);
}

function readMean(mean: unknown, completionTokens: unknown): Reading | undefined {
  if (mean === undefined || mean === null) return undefined;
  if (typeof mean !== 'number' || !(mean >= 1 && mean <= 1025))
    return { refusal: `The engine tells an accepted length that is no number of at least 1.` };
  const tokens = asCount(completionTokens);
  if (tokens === undefined || tokens === 0) return undefined; // chunks before the last have no usage
  const steps = Math.min(tokens, Math.max(1, Math.round(tokens / mean)));
  return checkClaim({ evidence: 'derived', steps, accepted: tokens - steps });
}
