/**
 * What the page at /mistletoe is told, as JSON, by guard and server alike. GET /mistletoe/api/state gives the whole;
 * with ?since=MS only the requests, alarms and actions that came later. No prompts, no answers, no keys.
 */
import type { ActionEvent, Alarm } from './alarm.js';
import type { RequestRecord, Stream } from './request-record.js';

export type Verdict = 'usual' | 'low' | 'high' | 'unknown';

/** A request as the page shows it: its strip of steps where the engine told them. */
export type ShownRequest = Omit<RequestRecord, 'promptPrint'> & {
  readonly verdict: Verdict;
  /** Null where nothing is known. */
  readonly acceptedLength: number | null;
};

export interface StreamState extends Stream {
  /** What is expected of a request of this kind; null until enough has been seen. */
  readonly baseline: { readonly middle: number; readonly low: number; readonly high: number } | null;
  /** Requests that the baseline has learnt from. */
  readonly learnt: number;
  /** Mean accepted length in slices of time, oldest first. */
  readonly history: readonly {
    readonly atMs: number;
    readonly acceptedLength: number | null;
    readonly requests: number;
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
  /** Newest first, some hundreds at most. */
  readonly requests: readonly ShownRequest[];
  readonly alarms: readonly Alarm[];
  readonly actions: readonly ActionEvent[];
  readonly counts: {
    readonly requests: number;
    readonly running: number;
    readonly withoutTelemetry: number;
    readonly failed: number;
  };
}
