/**
 * How far a suffix keeps the answer: the target's distribution along the clean one, and the free-running answer.
 */
import { prefill } from '../../decode/prefill.js';
import type { SpeculativeGeneration } from '../../decode/speculative.js';
import type { Target } from '../../decode/target.js';
import { classifyAnswer, satisfies, taskOf } from '../../measure/kept-class.js';
import { perplexityOf } from '../../measure/perplexity.js';
import { repetitionShare } from '../../measure/repetition.js';
import type { AuditPrompt } from './audit-prompt.js';
import { joinPrompt } from './audit-prompt.js';
import type { KeepBounds } from '../search/search-problem.js';
import type { PreservationMeasures } from '../result.js';
import type { Scorer } from '../search/scoring.js';

type Answer = Pick<SpeculativeGeneration, 'tokenIds' | 'text'>;

export function judgeAnswer(
  prompt: AuditPrompt,
  answer: Answer,
  { keep }: Pick<KeepBounds, 'keep'>,
): ReturnType<typeof classifyAnswer> & { readonly accepted: boolean } {
  const task = taskOf(prompt, prompt.answer.text);
  const judged = classifyAnswer({ clean: prompt.answer, other: answer, task });
  return { ...judged, accepted: satisfies(keep, judged.keptClass, judged.similarity) };
}

export async function measurePreservation(
  target: Target,
  prompt: AuditPrompt,
  scorer: Scorer,
  suffixIds: readonly number[],
  answer: Answer,
  bounds: KeepBounds,
): Promise<PreservationMeasures> {
  const [score] = suffixIds.length === 0 ? [] : await scorer.score(suffixIds, [{ suffixIds, first: 0 }]);
  const divergence = score?.divergence ?? 0;
  const { keptClass, similarity, firstDifference, accepted } = judgeAnswer(prompt, answer, bounds);
  return {
    divergence,
    kept: keptClass,
    firstDifference,
    editSimilarity: similarity,
    answerPerplexity: await perplexity(target, joinPrompt(prompt, []), answer.tokenIds),
    repetition: repetitionShare(answer.tokenIds),
    suffixPerplexity: suffixIds.length === 0 ? null : await perplexity(target, prompt.beforeIds, suffixIds),
    withinBound: divergence <= bounds.epsilon && accepted,
  };
}

async function perplexity(
  { model }: Target,
  contextIds: readonly number[],
  continuation: readonly number[],
): Promise<number> {
  if (continuation.length === 0) return 1;
  const cache = model.createCache();
  try {
    const before = contextIds.slice(0, -1);
    if (before.length > 0) await prefill(model, cache, before, { want: [] });
    const tokens = Int32Array.from([contextIds.at(-1)!, ...continuation.slice(0, -1)]);
    const { logits, rows } = await model.forward({ tokens, cache, want: ['logits'] });
    rows.free();
    return perplexityOf(logits!, continuation);
  } finally {
    cache.release();
  }
}
