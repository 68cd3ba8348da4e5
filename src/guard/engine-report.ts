/** What a doctor says of an engine: who it is, how it drafts, what it tells, and what to do where it does not. */
import type { EngineName } from './request-record.js';

/**
 * `on`: it is told. `asked`: to whoever asks in the request. `off`: it is not, `remedy` says how to change that. `never`:
 * the engine cannot. `unseen`: nothing but a generation would show it.
 */
export type TelemetryState = 'on' | 'asked' | 'off' | 'never' | 'unseen';

export interface Telemetry {
  readonly state: TelemetryState;
  /** Where it is told. */
  readonly text: string;
  /** The exact flag or field; null where nothing is to be done. */
  readonly remedy: string | null;
}

export interface Drafting {
  /** Null where the engine does not say. */
  readonly isOn: boolean | null;
  readonly method: string | null;
  readonly drafter: string | null;
  /** Most draft tokens of a step along one path. */
  readonly draftLength: number | null;
  readonly isTree: boolean | null;
}

export interface ProbeResult {
  readonly path: string;
  readonly status: number | null;
  readonly failure: string | null;
}

export interface EngineReport {
  readonly url: string;
  readonly engine: EngineName;
  readonly version: string | null;
  readonly models: readonly string[];
  readonly drafting: Drafting;
  readonly perRequest: Telemetry;
  readonly aggregate: Telemetry;
  /** Mean accepted length, bonus token included, and over what. */
  readonly acceptedLength: { readonly value: number; readonly over: string } | null;
  readonly notes: readonly string[];
  /** What was asked, and what came. */
  readonly probes: readonly ProbeResult[];
}

const mostShown = 200;

/** Names come from a stranger: strings alone, of a length that can be shown. */
export function shownText(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value.slice(0, mostShown) : null;
}

export function shownCount(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 1e6 ? value : null;
}
