/** Reports the ladder and the switches of a guarded request. */

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

export interface Guarding {
  readonly ladder: readonly string[];
  readonly switches: readonly DrafterSwitch[];
}
