/** One answer of one system, as a benchmark keeps it. */
import type { AcceptanceRecord } from '../decode/acceptance.js';
import type { FinishReason } from '../decode/answer.js';
import type { Generation } from '../decode/plain.js';
import { isSpeculative } from '../decode/speculative-text.js';
import type { SpeculativeGeneration } from '../decode/speculative.js';
import type { Prompt } from '../text/prompts/prompt-set.js';

/** The name and policy of plain decoding. */
export const plainSystem = { system: 'plain', policy: 'none' } as const;

export interface RequestRecord {
  readonly set: string;
  readonly promptId: string;
  readonly category: string | undefined;
  readonly system: string;
  readonly policy: string;
  readonly promptTokens: number;
  readonly tokenIds: readonly number[];
  readonly text: string;
  readonly finishReason: FinishReason;
  readonly prefillMs: number;
  /** From the first token, which the prefill gives, to the last. */
  readonly decodeMs: number;
  readonly tokensPerSecond: number;
  /** Absent for plain decoding. */
  readonly speculation?: SpeculationRecord | undefined;
}

export interface SpeculationRecord {
  readonly acceptance: AcceptanceRecord;
  readonly draftMs: number;
  readonly verifyMs: number;
  readonly overheadMs: number;
  readonly targetPasses: number;
  readonly drafterPasses: number;
  readonly drafterFailed: boolean;
  /** Token for token; undefined where tokens are drawn and the two need not agree. */
  readonly equalsPlain: boolean | undefined;
}

export interface AnswerParts {
  readonly set: string;
  readonly prompt: Prompt;
  readonly system: string;
  readonly policy: string;
  readonly generation: Generation;
  /** Plain decoding's answer to the same prompt. */
  readonly plain: Generation;
  readonly isGreedy: boolean;
}

export function recordAnswer(parts: AnswerParts): RequestRecord {
  const { set, prompt, system, policy, generation, plain, isGreedy } = parts;
  const { promptTokenIds, tokenIds, text, finishReason, prefillMs, decodeMs, tokensPerSecond } = generation;
  const equalsPlain = isGreedy ? haveSameTokens(generation, plain) : undefined;
  return {
    set,
    promptId: prompt.id,
    category: prompt.category,
    system,
    policy,
    promptTokens: promptTokenIds.length,
    tokenIds,
    text,
    finishReason,
    prefillMs,
    decodeMs,
    tokensPerSecond,
    speculation: isSpeculative(generation) ? speculationOf(generation, equalsPlain) : undefined,
  };
}

function haveSameTokens({ tokenIds }: Generation, other: Generation): boolean {
  return (
    tokenIds.length === other.tokenIds.length && tokenIds.every((id, index) => id === other.tokenIds[index])
  );
}

function speculationOf(
  generation: SpeculativeGeneration,
  equalsPlain: boolean | undefined,
): SpeculationRecord {
  const { acceptance, draftMs, verifyMs, overheadMs, targetPasses, drafterPasses, drafterFailed } =
    generation;
  return {
    acceptance,
    draftMs,
    verifyMs,
    overheadMs,
    targetPasses,
    drafterPasses,
    drafterFailed,
    equalsPlain,
  };
}
