/** What is told of a request whose drafts were guarded: its ladder, and which rungs it took when. */

export const switchReasons = ['evidence', 'account', 'probe', 'probe-failed'] as const;

/**
 * `evidence`: drafts failed as they do not in usual requests. `account`: they cost more than they brought. `probe`: the first
 * rung was tried again; `probe-failed`: it did not pay.
 */
export type SwitchReason = (typeof switchReasons)[number];

/** Rungs by the names of their drafters; null is plain decoding. */
export interface DrafterSwitch {
  readonly from: string | null;
  readonly to: string | null;
  /** From 1, the first step on the new rung. */
  readonly step: number;
  readonly reason: SwitchReason;
}

export interface Guarding {
  /** Names of drafters; the first is the request's own. */
  readonly ladder: readonly string[];
  readonly switches: readonly DrafterSwitch[];
}
