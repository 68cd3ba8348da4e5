/** Records of a benchmark with round numbers, for tests of what is made of them. */
import type { StepRecord } from '../../../src/decode/acceptance.js';
import { summariseAcceptance } from '../../../src/decode/acceptance.js';
import type { RequestRecord } from '../../../src/measure/benchmark-summary.js';
import { plainSystem } from '../../../src/measure/benchmark-summary.js';

export interface SampleAnswer {
  readonly set?: string;
  readonly promptId: string;
  readonly category?: string;
  readonly tokens: number;
  readonly decodeMs: number;
  readonly prefillMs?: number;
}

export function plainRecord(answer: SampleAnswer): RequestRecord {
  const { set = 'code', promptId, category, tokens, decodeMs, prefillMs = 10 } = answer;
  return {
    ...plainSystem,
    set,
    promptId,
    category,
    promptTokens: 5,
    tokenIds: Array.from({ length: tokens }, (_, index) => 100 + index),
    text: `answer to ${promptId}`,
    finishReason: 'length',
    prefillMs,
    decodeMs,
    tokensPerSecond: tokens > 1 ? (tokens - 1) / (decodeMs / 1000) : 0,
  };
}

export interface SampleSpeculation extends SampleAnswer {
  readonly system?: string;
  readonly policy?: string;
  /** Accepted draft tokens of each step; four were proposed each time. */
  readonly accepted: readonly number[];
  readonly draftMs?: number;
  readonly verifyMs?: number;
  readonly equalsPlain?: boolean | undefined;
  readonly drafterFailed?: boolean;
  readonly lossReason?: string | undefined;
}

export function speculativeRecord(answer: SampleSpeculation): RequestRecord {
  const { system = 'eagle3', policy = 'chain:4', accepted, draftMs = 0, verifyMs = 0 } = answer;
  const steps = accepted.map((count): StepRecord => ({ proposed: 4, accepted: count, depth: 4 }));
  return {
    ...plainRecord(answer),
    system,
    policy,
    speculation: {
      acceptance: summariseAcceptance(steps, answer.tokens),
      draftMs,
      verifyMs,
      overheadMs: answer.decodeMs - draftMs - verifyMs,
      targetPasses: steps.length,
      drafterPasses: 4 * steps.length,
      drafterFailed: answer.drafterFailed ?? false,
      lossReason: answer.lossReason,
      equalsPlain: 'equalsPlain' in answer ? answer.equalsPlain : true,
    },
  };
}
