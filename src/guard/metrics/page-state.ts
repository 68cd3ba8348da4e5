/**
 * The JSON of the page at /mistletoe, for guard and server alike. GET /mistletoe/api/state returns all of it; with
 * ?since=MS only later requests, alerts and actions. No prompts, no answers, no keys.
 */
import type { ActionEvent, Alert, Verdict } from '../judge/verdict.js';
import type { Observation, Stream } from '../observation.js';

/** A request as the page shows it. */
export type ShownRequest = Observation & {
  readonly verdict: Verdict;
  /** Null where unknown. */
  readonly acceptedLength: number | null;
};

export interface StreamState extends Stream {
  /** 1 %, median and 99 % of accepted lengths; null until enough requests have been seen. */
  readonly baseline: { readonly middle: number; readonly low: number; readonly high: number } | null;
  /** Requests in the baseline. */
  readonly learned: number;
  /** Requests until there is a baseline. */
  readonly needed?: number;
  /** Mean accepted length in slices of time, oldest first. */
  readonly history: readonly {
    readonly atMs: number;
    readonly acceptedLength: number | null;
    readonly requests: number;
    /** The baseline's band; null while there is none. */
    readonly low: number | null;
    readonly high: number | null;
  }[];
}

export interface PageState {
  readonly version: string;
  readonly kind: 'guard' | 'serve';
  readonly upstream: string | null;
  readonly nowMs: number;
  readonly startedMs: number;
  readonly streams: readonly StreamState[];
  /** Newest first, at most a few hundred. */
  readonly requests: readonly ShownRequest[];
  readonly alerts: readonly Alert[];
  readonly actions: readonly ActionEvent[];
  readonly counts: {
    readonly requests: number;
    readonly running: number;
    readonly withoutTelemetry: number;
    readonly failed: number;
  };
}
