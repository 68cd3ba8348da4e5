/**
 * llama.cpp's server counts draft tokens in `timings` (draft_n, draft_n_accepted; absent where nothing was drafted) and
 * does not tell its steps. Every token behind the first is either an accepted draft token or ends a step, so that steps are
 * predicted_n - 1 - draft_n_accepted; steps without a draft are among them, and an answer that was cut within a draft has
 * one token too few. mlx-vlm has the same object and counts its rounds; its accepted tokens may exceed those that were
 * given out, so that they follow from the rounds.
 */
import type { JsonObject, Reading } from './reading.js';
import { asCount, asObject, checkClaim } from './reading.js';

export function readLlamaCpp(body: unknown): Reading | undefined {
  const timings = timingsOf(body);
  if (timings === undefined || isMlx(timings) || !('draft_n_accepted' in timings)) return undefined;
  const { predicted_n: predicted, draft_n: proposed, draft_n_accepted: accepted } = timings;
  const [tokens, acceptedTokens] = [asCount(predicted), asCount(accepted)];
  if (tokens === undefined || acceptedTokens === undefined)
    return checkClaim({ evidence: 'derived', steps: predicted, accepted, proposed });
  const least = asCount(proposed) === 0 ? 0 : 1;
  const steps = Math.max(least, tokens - 1 - acceptedTokens);
  return checkClaim({ evidence: 'derived', steps, accepted, proposed });
}

export function readMlxVlm(body: unknown): Reading | undefined {
  const timings = timingsOf(body);
  if (timings === undefined || !isMlx(timings)) return undefined;
  const { predicted_n: predicted, draft_rounds: steps, draft_n: proposed } = timings;
  const [tokens, rounds] = [asCount(predicted), asCount(steps)];
  if (tokens === undefined || rounds === undefined)
    return checkClaim({ evidence: 'derived', steps, accepted: predicted, proposed });
  const given = rounds === 0 ? 0 : Math.max(0, tokens - 1 - rounds);
  return checkClaim({ evidence: 'derived', steps: rounds, accepted: given, proposed });
}

function timingsOf(body: unknown): JsonObject | undefined {
  const timings = asObject(asObject(body)?.timings);
  return timings !== undefined && 'predicted_n' in timings ? timings : undefined;
}

const isMlx = (timings: JsonObject): boolean => 'draft_rounds' in timings;
