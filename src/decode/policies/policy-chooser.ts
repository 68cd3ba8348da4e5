/** Decides how much to draft at each step. */
import type { DraftSession } from '../../draft/drafter.js';
import type { DraftSource, ResolvedPolicy } from '../../draft/tree/grow-tree.js';
import type { DynamicPolicy } from '../../draft/tree/policy.js';
import type { BatchStep } from '../../model/lanes/lane-program.js';
import type { StepRecord } from '../acceptance.js';

export const switchReasons = ['evidence', 'account', 'probe', 'probe-failed'] as const;

/**
 * `evidence`: drafts failed unusually often. `account`: they cost more than they brought. `probe`: the first rung was
 * tried again. `probe-failed`: it did not pay.
 */
export type SwitchReason = (typeof switchReasons)[number];

/** Drafter names; null means plain decoding. */
export interface DrafterSwitch {
  readonly from: string | null;
  readonly to: string | null;
  /** From 1, the first step on the new rung. */
  readonly step: number;
  readonly reason: SwitchReason;
}

/** The ladder and the switches of a guarded request. */
export interface Guarding {
  readonly ladder: readonly string[];
  readonly switches: readonly DrafterSwitch[];
}

export interface PolicyChooser {
  readonly chainLengths: readonly number[];
  readonly trees?: readonly DynamicPolicy[] | undefined;
  /** Called with the time of the prompt, after the first choice. */
  begin?(promptMs: number): void;
  /** The session's text may suggest a draft. */
  choose(session?: Pick<DraftSession, 'lookUp'>): DraftChoice;
  /** Reports a step with its choice: steps of several requests interleave. */
  learn(choice: DraftChoice, outcome: StepOutcome): void;
}

export interface DraftChoice {
  readonly policy: ResolvedPolicy | undefined;
  /** Of a drafter with a lookup beside it; see DraftRequest. */
  readonly source?: DraftSource | undefined;
  /** Index of the drafter, if several take turns. */
  readonly drafter?: number | undefined;
}

export interface StepOutcome extends StepRecord {
  readonly draftMs: number;
  readonly verifyMs: number;
  /** Without waiting for other sequences. */
  readonly own?: Pick<StepOutcome, 'draftMs' | 'verifyMs'> | undefined;
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
