/** One arm of one prompt, measured for real: the answer that speculative decoding gives, and how far it is preserved. */
import type { PolicyChooser, SpeculativeGeneration, SpeculativeRequest } from '../decode/speculative.js';
import { decodeSpeculative } from '../decode/speculative.js';
import { decodePlain } from '../decode/plain.js';
import type { Target } from '../decode/target.js';
import type { Drafter } from '../draft/drafter.js';
import { createTextStream } from '../text/text-stream.js';
import type { AuditPrompt } from './audit-prompt.js';
import { joinPrompt, suffixText } from './audit-prompt.js';
import type { PreservationBounds } from './preservation.js';
import { measurePreservation } from './preservation.js';
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

export async function measureArm(
  setup: ArmSetup,
  arm: ArmName,
  suffixIds: readonly number[],
): Promise<ArmMeasure> {
  const { target, prompt, scorer, bounds } = setup;
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
  const preservation = await measurePreservation(target, prompt, scorer, suffixIds, speculative, bounds);
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

export function decodeArm(
  setup: ArmSetup,
  promptIds: readonly number[],
  options: Pick<SpeculativeRequest, 'onToken' | 'signal' | 'prefix'> = {},
): Promise<SpeculativeGeneration> {
  const { target, drafter, policy, maxNewTokens } = setup;
  return decodeSpeculative(target.model, drafter, {
    ...options,
    promptIds,
    maxNewTokens,
    sampling: { temperature: 0 },
    seed: 0,
    stopIds: target.stopIds,
    tokenizer: target.tokenizer,
    policy,
  });
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
