/** One answer of one system, as a benchmark keeps it. */
import { createHash } from 'node:crypto';
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

// Answer files in the shape that Spec-Bench's tools read, one JSON object per question. Where published scripts differ,
// these numbers mean:
// - decoding_steps: verification passes, counted, not the last loop index. Plain decoding counts a step per token.
// - new_tokens: tokens of the answer. What an accepted path holds beyond the answer's end is not in it.
// - wall_time: seconds of prefill and decoding together, as Spec-Bench times a whole answer.
// - accept_lengths: per step, with the bonus token, so their pooled mean is the mean accepted length.

/** One file for each prompt set and system: question ids are unique only inside a set. */
export function toSpecBenchFiles(records: readonly RequestRecord[], target: string, timeMs: number) {
  const files = new Map<
    string,
    { set: string; modelId: string; answers: ReturnType<typeof toSpecBenchAnswer>[] }
  >();
  for (const record of records) {
    const modelId = modelIdOf(record, target);
    const key = JSON.stringify([record.set, modelId]);
    const file = files.get(key) ?? { set: record.set, modelId, answers: [] };
    files.set(key, file);
    file.answers.push(toSpecBenchAnswer(record, modelId, timeMs));
  }
  return [...files.values()];
}

/** Also the name of the file, so only letters that every file system takes. */
function modelIdOf({ system, policy, speculation }: RequestRecord, target: string): string {
  const parts = speculation === undefined ? [target, system] : [target, system, policy];
  return parts.map((part) => part.replace(/[^\w.]+/g, '-').replace(/^[-.]+|[-.]+$/g, '')).join('-');
}

function toSpecBenchAnswer(record: RequestRecord, modelId: string, timeMs: number) {
  const { set, promptId, category, tokenIds, text, prefillMs, decodeMs, speculation } = record;
  const acceptLengths = speculation?.acceptance.acceptedLengths ?? tokenIds.map(() => 1);
  return {
    question_id: /^(0|[1-9]\d{0,14})$/.test(promptId) ? Number(promptId) : promptId,
    category: category ?? set,
    answer_id: createHash('sha256')
      .update(JSON.stringify([modelId, set, promptId, tokenIds]))
      .digest('base64url')
      .slice(0, 22),
    model_id: modelId,
    choices: [
      {
        index: 0,
        turns: [text],
        // [turn]
        decoding_steps: [acceptLengths.length],
        new_tokens: [tokenIds.length],
        wall_time: [(prefillMs + decodeMs) / 1000],
        accept_lengths: acceptLengths, // [step], all turns in a row
      },
    ] as const,
    tstamp: timeMs / 1000,
  };
}
