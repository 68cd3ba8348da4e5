/** Decides how much to draft at each step. */
import type { ResolvedPolicy } from '../../draft/tree/grow-tree.js';
import type { DynamicPolicy } from '../../draft/tree/policy.js';
import type { BatchStep } from '../../model/lanes/pass-scheduler.js';
import type { StepRecord } from '../acceptance.js';

export interface PolicyChooser {
  /** Lengths of the chains that it may choose. */
  readonly chainLengths: readonly number[];
  /** Dynamic trees that it may choose. */
  readonly trees?: readonly DynamicPolicy[] | undefined;
  /** Called with the time of the prompt, after the first choice. */
  begin?(promptMs: number): void;
  choose(): DraftChoice;
  /** Reports a step with its choice: steps of several requests interleave. */
  learn(choice: DraftChoice, outcome: StepOutcome): void;
}

export interface DraftChoice {
  /** `undefined`: a plain step. */
  readonly policy: ResolvedPolicy | undefined;
  /** Index of the drafter, if several take turns. */
  readonly drafter?: number | undefined;
}

export interface StepOutcome extends StepRecord {
  readonly draftMs: number;
  readonly verifyMs: number;
  /** Without waiting for other sequences. */
  readonly own?: { readonly draftMs: number; readonly verifyMs: number } | undefined;
  readonly batch?: BatchStep | undefined;
}

export const always = (policy: ResolvedPolicy): PolicyChooser => ({
  chainLengths: policy.kind === 'chain' ? [policy.length] : [],
  trees: policy.kind === 'dynamic' ? [policy] : [],
  choose: () => ({ policy }),
  learn: () => undefined,
});
