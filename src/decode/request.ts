import type { SamplingOptions } from '../core/sampling.js';
import type { AcceptanceRecord } from './acceptance.js';
import type { AnswerOptions, FinishReason, TokenOrigin } from './answer.js';
import type { GenerationTimes } from './generation-clock.js';
import type { PolicyChooser, StepOutcome } from './policies/policy-chooser.js';
import type { ReadPrefix } from './prompt-reading.js';
import type { Steps, StepTimes, Turn } from './step.js';
import type { VerificationRule } from './verification/verification.js';

export interface GenerationRequest extends AnswerOptions {
  readonly promptIds: readonly number[];
  readonly sampling: SamplingOptions;
  readonly seed: number;
  /** Shares its passes with the engine's other sequences; default: an engine of its own. */
  readonly engine?: Steps | undefined;
  /** The beginning of the prompt, if already read. */
  readonly prefix?: ReadPrefix | undefined;
  /** Report likelihoods, with this many of the most likely tokens. */
  readonly topLikelihoods?: number | undefined;
}

export interface SpeculativeRequest extends GenerationRequest {
  readonly policy: PolicyChooser;
  /** Default: `greedy` at temperature 0, else `rejection`. */
  readonly rule?: VerificationRule | undefined;
  /**
   * Forces the answer to these tokens; drafts are judged along them, and above temperature 0 drafted along them.
   * Ignores `maxNewTokens` and stop tokens.
   */
  readonly held?: readonly number[] | undefined;
  /** Fail if the drafter fails, instead of continuing without it. */
  readonly mustDraft?: boolean | undefined;
  readonly onNotice?: ((message: string) => void) | undefined;
  /** Called before the step's tokens. */
  readonly onStep?: ((step: StepOutcome, trace: StepTrace) => void) | undefined;
}

/** A step with its draft, for people. */
export type StepTrace = Pick<Turn, 'tree' | 'verdict'> & StepTimes;

export interface Generation extends GenerationTimes {
  readonly promptTokenIds: readonly number[];
  readonly tokenIds: readonly number[];
  readonly origins: readonly TokenOrigin[];
  readonly text: string;
  readonly finishReason: FinishReason;
  readonly stopString?: string | undefined;
  readonly tokensPerSecond: number;
}

export interface SpeculativeGeneration extends Generation {
  readonly acceptance: AcceptanceRecord;
  readonly rule: VerificationRule;
  /** Why the answer can differ from plain decoding's; undefined if it is lossless. */
  readonly lossReason: string | undefined;
  readonly steps: readonly StepOutcome[];
  readonly targetPasses: number;
  readonly drafterPasses: number;
  readonly draftMs: number;
  readonly verifyMs: number;
  /** The rest of decodeMs: verification rules, bookkeeping, streaming. */
  readonly overheadMs: number;
  readonly drafterFailed: boolean;
}

export function isSpeculative(generation: Generation): generation is SpeculativeGeneration {
  return 'acceptance' in generation;
}
