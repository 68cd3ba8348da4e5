/** Decides how much to draft at each step. */
import type { DraftSession } from '../../draft/drafter.js';
import type { ResolvedPolicy } from '../../draft/tree/policy.js';
import type { DynamicPolicy } from '../../draft/tree/policy.js';
import type { BatchStep } from '../../model/lanes/lane-program.js';
import type { StepRecord } from '../acceptance.js';

export interface PolicyChooser {
  readonly chainLengths: readonly number[];
  readonly trees?: readonly DynamicPolicy[] | undefined;
  /** Called with the time of the prompt, after the first choice. */
  begin?(promptMs: number): void;
  /** The session's text may suggest a draft. */
  choose(session?: Pick<DraftSession, 'suggest'>): DraftChoice;
  /** Reports a step with its choice: steps of several requests interleave. */
  learn(choice: DraftChoice, outcome: StepOutcome): void;
}

export interface DraftChoice {
  readonly policy: ResolvedPolicy | undefined;
  /** Whether only lookups are asked. */
  readonly source?: 'lookup' | undefined;
}

export interface StepOutcome extends StepRecord {
  readonly draftMs: number;
  readonly verifyMs: number;
  readonly batch?: BatchStep | undefined;
  /** Something was prepared for it (Runtime.preparedRuns), so its time says little about the next step. */
  readonly isCold?: boolean | undefined;
}

export const always = (policy: ResolvedPolicy): PolicyChooser => ({
  chainLengths: policy.kind === 'chain' ? [policy.length] : [],
  trees: policy.kind === 'dynamic' ? [policy] : [],
  choose: () => ({ policy }),
  learn: () => undefined,
});
