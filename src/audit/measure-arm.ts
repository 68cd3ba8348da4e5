/** One arm of one prompt, measured for real: the answer that speculative decoding gives, and how far it is preserved. */
import type { PolicyChooser, SpeculativeGeneration } from '../decode/speculative.js';
import { decodeSpeculative } from '../decode/speculative.js';
import { decodePlain } from '../decode/plain.js';
import type { Target } from '../decode/target.js';
import { prefill } from '../decode/prefill.js';
import { logSumExp } from '../core/vector.js';
import type { Drafter } from '../draft/drafter.js';
import { repetitionShare } from '../measure/repetition.js';
import { editSimilarity, firstDifference } from '../measure/similarity.js';
import { agree, extractAnswer } from '../measure/task-answer.js';
import { createTextStream } from '../text/text-stream.js';
import type { AuditPrompt } from './audit-prompt.js';
import { joinPrompt, suffixText } from './audit-prompt.js';
import type { AnswerRecord, ArmName, ArmResult, ArmTiming } from './result.js';
import type { Scorer } from './scoring.js';

export interface ArmMeasure {
  readonly result: ArmResult;
  readonly timing: Omit<ArmTiming, 'drafter'>;
}

export interface ArmSetup {
  readonly target: Target;
  readonly drafter: Drafter;
  readonly policy: PolicyChooser;
  readonly prompt: AuditPrompt;
  readonly scorer: Scorer;
  readonly maxNewTokens: number;
  readonly bounds: PreservationBounds;
}

/** What "the answer stays the same" means. */
export interface PreservationBounds {
  readonly epsilon: number;
  /** Least edit similarity of the free-running answer to the clean one. */
  readonly similarity: number;
}

export async function measureArm(
  setup: ArmSetup,
  arm: ArmName,
  suffixIds: readonly number[],
): Promise<ArmMeasure> {
  const { target, prompt } = setup;
  const promptIds = joinPrompt(prompt, suffixIds);
  const speculative = await decodeArm(setup, promptIds);
  // Plain decoding of the same prompt to the same length: the other side of the speedup.
  const plain = await decodePlain(target.model, {
    promptIds,
    maxNewTokens: speculative.tokenIds.length,
    sampling: { temperature: 0 },
    seed: 0,
    stopIds: target.stopIds,
  });
  const preservation = await measurePreservation(setup, suffixIds, speculative.tokenIds, speculative.text);
  const { steps, proposed, accepted, emitted, meanAcceptedLength, acceptanceByDepth, histogram } =
    speculative.acceptance;
  return {
    result: {
      arm,
      suffix: suffixText(target, prompt, suffixIds),
      suffixIds,
      answer: recordAnswer(target, promptIds, speculative),
      acceptance: { steps, proposed, accepted, emitted, meanAcceptedLength, acceptanceByDepth, histogram },
      preservation,
    },
    timing: {
      promptId: prompt.id,
      arm,
      prefillMs: speculative.prefillMs,
      decodeMs: speculative.decodeMs,
      draftMs: speculative.draftMs,
      verifyMs: speculative.verifyMs,
      tokensPerSecond: speculative.tokensPerSecond,
      plainTokensPerSecond: plain.tokensPerSecond,
      speedup: plain.tokensPerSecond > 0 ? speculative.tokensPerSecond / plain.tokensPerSecond : 0,
    },
  };
}

export function decodeArm(setup: ArmSetup, promptIds: readonly number[]): Promise<SpeculativeGeneration> {
  const { target, drafter, policy, maxNewTokens } = setup;
  return decodeSpeculative(target.model, drafter, {
    promptIds,
    maxNewTokens,
    sampling: { temperature: 0 },
    seed: 0,
    stopIds: target.stopIds,
    tokenizer: target.tokenizer,
    policy,
  });
}

async function measurePreservation(
  setup: ArmSetup,
  suffixIds: readonly number[],
  answerIds: readonly number[],
  answerText: string,
): Promise<ArmResult['preservation']> {
  const { target, prompt, scorer, bounds } = setup;
  const clean = prompt.answer;
  const [score] = suffixIds.length === 0 ? [] : await scorer.score(suffixIds, [{ suffixIds, first: 0 }]);
  const divergence = score?.divergence ?? 0;
  const similarity = editSimilarity(clean.tokenIds, answerIds);
  const hasTask =
    prompt.reference !== null && extractAnswer(clean.text) !== undefined && prompt.reference.includes('####');
  return {
    divergence,
    firstDifference: firstDifference(clean.tokenIds, answerIds),
    editSimilarity: similarity,
    answerPerplexity: await perplexity(target, joinPrompt(prompt, []), answerIds),
    repetition: repetitionShare(answerIds),
    taskAgrees: hasTask ? agree(clean.text, answerText) : null,
    suffixPerplexity: suffixIds.length === 0 ? null : await perplexity(target, prompt.beforeIds, suffixIds),
    withinBound: divergence <= bounds.epsilon && similarity >= bounds.similarity,
  };
}

/** exp of the mean surprisal of a continuation. */
async function perplexity(
  { model }: Target,
  contextIds: readonly number[],
  continuation: readonly number[],
): Promise<number> {
  if (continuation.length === 0) return 1;
  const cache = model.createCache();
  const before = contextIds.slice(0, -1);
  if (before.length > 0) await prefill(model, cache, before, { want: [] });
  const tokens = Int32Array.from([contextIds.at(-1)!, ...continuation.slice(0, -1)]);
  const { logits } = await model.forward({ tokens, cache, want: ['logits'] });
  const width = model.configuration.vocabularySize;
  const total = continuation.reduce((sum, token, row) => {
    const scores = logits!.subarray(row * width, (row + 1) * width);
    return sum + logSumExp(scores) - scores[token]!;
  }, 0);
  return Math.exp(total / continuation.length);
}

function recordAnswer(
  { tokenizer }: Target,
  promptIds: readonly number[],
  { tokenIds, text, origins, finishReason }: SpeculativeGeneration,
): AnswerRecord {
  const stream = createTextStream(tokenizer, promptIds);
  const pieces = tokenIds.map((id) => stream.push(id));
  if (pieces.length > 0) pieces.push(`${pieces.pop() ?? ''}${stream.finish()}`);
  return {
    text,
    tokenIds,
    pieces,
    origins: origins.map((origin) => (origin === 'accepted' ? 'a' : 'b')).join(''),
    finishReason,
  };
}
