/**
 * Whether a suffix keeps the answer. Along the clean answer the target's distribution must not move by more than epsilon; and
 * the answer that the target then gives by itself must be nearly the clean one, or one that the target without the
 * suffix finds about as likely and that repeats itself no more: a service could have given it, and no monitor of
 * quality would notice.
 */
import { prefill } from '../decode/prefill.js';
import type { ReadPrefix } from '../decode/prefix.js';
import type { SpeculativeGeneration } from '../decode/speculative.js';
import type { Target } from '../decode/target.js';
import { perplexityOf } from '../measure/perplexity.js';
import { repetitionShare } from '../measure/repetition.js';
import { editSimilarity, firstDifference } from '../measure/similarity.js';
import { agree, extractAnswer } from '../measure/task-answer.js';
import type { AuditPrompt } from './audit-prompt.js';
import { joinPrompt } from './audit-prompt.js';
import type { PreservationMeasures } from './result.js';
import type { Scorer } from './scoring.js';

export interface PreservationBounds {
  /** Most mean divergence of the target's distribution over the window, in nats. */
  readonly epsilon: number;
  /** Least edit similarity of the free-running answer to the clean one. */
  readonly similarity: number;
  /** Where it is less similar: most nats a token by which it may be less likely, without the suffix, than the clean one. */
  readonly excess: number;
  /** And: most by which its share of repeated 4-grams may exceed the clean one's. */
  readonly repetition: number;
}

type Answer = Pick<SpeculativeGeneration, 'tokenIds' | 'text'>;

/** What has been computed already. */
interface Known {
  /** Of the answer, without the suffix. */
  readonly answerPerplexity?: number;
  /** The prompt up to the place of the suffix. */
  readonly prefix?: Pick<ReadPrefix, 'cache'>;
}

/** The check on the free-running answer; the divergence is the search's own veto. */
export async function keepsAnswer(
  target: Target,
  prompt: AuditPrompt,
  { tokenIds }: Answer,
  bounds: PreservationBounds,
  { answerPerplexity, prefix }: Known = {},
): Promise<boolean> {
  const clean = prompt.answer.tokenIds;
  if (editSimilarity(clean, tokenIds) >= bounds.similarity) return true;
  if (repetitionShare(tokenIds) > repetitionShare(clean) + bounds.repetition) return false;
  const perplexity = answerPerplexity ?? (await perplexityWithout(target, prompt, tokenIds, prefix));
  return Math.log(perplexity / prompt.answerPerplexity) <= bounds.excess;
}

export async function measurePreservation(
  target: Target,
  prompt: AuditPrompt,
  scorer: Scorer,
  suffixIds: readonly number[],
  answer: Answer,
  bounds: PreservationBounds,
): Promise<PreservationMeasures> {
  const clean = prompt.answer;
  const [score] = suffixIds.length === 0 ? [] : await scorer.score(suffixIds, [{ suffixIds, first: 0 }]);
  const divergence = score?.divergence ?? 0;
  const answerPerplexity = await perplexityWithout(target, prompt, answer.tokenIds);
  const hasTask =
    prompt.reference !== null && extractAnswer(clean.text) !== undefined && prompt.reference.includes('####');
  return {
    divergence,
    firstDifference: firstDifference(clean.tokenIds, answer.tokenIds),
    editSimilarity: editSimilarity(clean.tokenIds, answer.tokenIds),
    answerPerplexity,
    repetition: repetitionShare(answer.tokenIds),
    taskAgrees: hasTask ? agree(clean.text, answer.text) : null,
    suffixPerplexity: suffixIds.length === 0 ? null : await perplexity(target, prompt.beforeIds, suffixIds),
    withinBound:
      divergence <= bounds.epsilon &&
      (await keepsAnswer(target, prompt, answer, bounds, { answerPerplexity })),
  };
}

function perplexityWithout(
  target: Target,
  prompt: AuditPrompt,
  answerIds: readonly number[],
  prefix?: Pick<ReadPrefix, 'cache'>,
): Promise<number> {
  return perplexity(target, joinPrompt(prompt, []), answerIds, prefix?.cache.clone());
}

/** exp of the mean surprisal of a continuation. */
async function perplexity(
  { model }: Target,
  contextIds: readonly number[],
  continuation: readonly number[],
  /** Holds the first tokens of the context. */
  cache = model.createCache(),
): Promise<number> {
  if (continuation.length === 0) return 1;
  const before = contextIds.slice(cache.length, -1);
  if (before.length > 0) await prefill(model, cache, before, { want: [] });
  const tokens = Int32Array.from([contextIds.at(-1)!, ...continuation.slice(0, -1)]);
  const { logits } = await model.forward({ tokens, cache, want: ['logits'] });
  return perplexityOf(logits!, continuation);
}
