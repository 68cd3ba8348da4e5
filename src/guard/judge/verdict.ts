/** What the judge says about one request, about a tenant, and about what follows. */
import type { ActionName } from '../observation.js';

/**
 * `collapsed`: drafting cost more than it saved. `low`: lower than nearly all requests of this model and route.
 * `learning`: not collapsed, and the baseline is too young to rank it. `unreadable`: nothing to judge.
 */
export const verdictNames = ['normal', 'low', 'collapsed', 'learning', 'unreadable'] as const;
export type VerdictName = (typeof verdictNames)[number];

/** The operator's setting, the engine's timings, or an estimate from the draft length. */
export type BreakEvenSource = 'config' | 'timings' | 'default';

export const noNumbers = {
  /** Mean accepted length, bonus token included, over `steps` verification passes. */
  acceptedLength: null as number | null,
  steps: null as number | null,
  /** Upper confidence bound of the accepted length. */
  upperBound: null as number | null,
  /** Tokens per step from which drafting pays. */
  breakEven: null as number | null,
  breakEvenFrom: null as BreakEvenSource | null,
  /** Share of the baseline's requests that are this low or lower. */
  rank: null as number | null,
  baseline: null as number | null,
};
/** The numbers behind a verdict; null where there is none. */
export type VerdictNumbers = Readonly<typeof noNumbers>;

export interface Verdict {
  readonly name: VerdictName;
  readonly numbers: VerdictNumbers;
  /** One sentence. */
  readonly reason: string;
}

/**
 * `collapsed` and `low`: too many such requests of one tenant. `drift`: its requests are lower than they were.
 * `drafter-down`: the requests of most tenants collapse.
 */
export type AlertCause = 'collapsed' | 'low' | 'drift' | 'drafter-down';

export interface Alert {
  readonly id: string;
  readonly atMs: number;
  readonly model: string;
  readonly route: string;
  /** Null where the alert is about all tenants. */
  readonly tenant: string | null;
  /** The request that completed the evidence. */
  readonly requestId: string;
  readonly cause: AlertCause;
  /** Of the tenant's recent requests, as many are of that kind, or drifted. */
  readonly count: number;
  readonly requests: number;
  /** Probability of this without an attack; the alert fires at or below the threshold. */
  readonly probability: number;
  readonly threshold: number;
  readonly text: string;
}

/** What a test found about a tenant; `threshold` where it is not that of the request. */
export type Finding = Pick<Alert, 'tenant' | 'cause' | 'count' | 'requests' | 'probability' | 'text'> &
  Partial<Pick<Alert, 'threshold'>>;

export interface ActionEvent {
  readonly atMs: number;
  readonly action: ActionName;
  readonly change: 'applied' | 'lifted';
  /** Null for all tenants. */
  readonly tenant: string | null;
  readonly model: string;
  readonly requestId: string | null;
  readonly alertId: string | null;
  readonly text: string;
}

export interface Judgment {
  readonly verdict: Verdict;
  readonly alerts: readonly Alert[];
  readonly actions: readonly ActionEvent[];
}

/** What applies to a request before it is forwarded. */
export type Decision =
  | { readonly kind: 'none' }
  /** Drafted as usual although a measure is in force: pass `isProbe: true` and `measure` on in the observation. */
  | { readonly kind: 'probe'; readonly measure: ActionName }
  | { readonly kind: 'plain-upstream' }
  | { readonly kind: 'shorter-drafts'; readonly draftLength: number }
  | { readonly kind: 'refuse'; readonly retryAfterMs: number };
