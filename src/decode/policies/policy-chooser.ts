/** Who decides how much is drafted at each step of a request, and what it hears of the steps. */
import type { ResolvedPolicy } from '../../draft/tree/grow-tree.js';
import type { DynamicPolicy } from '../../draft/tree/policy.js';
import type { BatchStep } from '../../model/lanes/pass-scheduler.js';
import type { StepRecord } from '../acceptance.js';

/** Decides how much to draft, step by step; a fixed policy always says the same. */
export interface PolicyChooser {
  /** Lengths of the chains that it may ask for. */
  readonly chainLengths: readonly number[];
  /** Dynamic trees that it may ask for. */
  readonly trees?: readonly DynamicPolicy[];
  /** Hears what reading the prompt took, behind its first choice. */
  begin?(promptMs: number): void;
  choose(): DraftChoice;
  /** Hears what a step cost and brought, with the choice that it made for it: steps of several requests interleave. */
  learn(choice: DraftChoice, outcome: StepOutcome): void;
}

export interface DraftChoice {
  /** `undefined` asks for one plain step. */
  readonly policy: ResolvedPolicy | undefined;
  /** Of drafters that take turns, the place of the one that drafts. */
  readonly drafter?: number;
}

export interface StepOutcome extends StepRecord {
  readonly draftMs: number;
  readonly verifyMs: number;
  /** The passes of this sequence alone. The times above include waiting for other sequences. */
  readonly own?: { readonly draftMs: number; readonly verifyMs: number } | undefined;
  readonly batch?: BatchStep | undefined;
}

export const always = (policy: ResolvedPolicy): PolicyChooser => ({
  chainLengths: policy.kind === 'chain' ? [policy.length] : [],
  trees: policy.kind === 'dynamic' ? [policy] : [],
  choose: () => ({ policy }),
  learn: () => undefined,
});
