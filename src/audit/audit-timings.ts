/** Measured times, which are another each time and so never part of AuditResult. */
import type { ArmName } from './arms.js';
import type { PhaseTimes } from './phase-clock.js';

/** One entry for each arm of each prompt. */
export interface ArmTiming {
  readonly drafter: string;
  readonly promptId: string;
  readonly arm: ArmName;
  readonly repeat: number;
  readonly prefillMs: number;
  readonly decodeMs: number;
  readonly draftMs: number;
  readonly verifyMs: number;
  readonly tokensPerSecond: number;
  /** Plain decoding of the same prompt to the same length, in the same process; null where it was not run. */
  readonly plainTokensPerSecond: number | null;
  /** tokensPerSecond / plainTokensPerSecond */
  readonly speedup: number | null;
  /** Where the time of this row went, its search included; absent in runs up to version 0.2. */
  readonly phases?: PhaseTimes;
}

export type TimedArm = ArmTiming & Required<Pick<ArmTiming, 'phases'>>;

export const isTimedArm = (timing: ArmTiming): timing is TimedArm => timing.phases !== undefined;

export interface AuditTimings {
  readonly machine: string;
  readonly arms: readonly ArmTiming[];
  /** The whole run, from its first start to its end, time before a resume included and time in between not. */
  readonly totalMs: number;
}
