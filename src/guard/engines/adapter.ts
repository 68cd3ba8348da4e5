/** What one file per engine implements. To add an engine, write that file and add it to engine-list.ts. */
import type { EngineName } from '../observation.js';
import type { Claims, JsonObject } from './claim.js';
import type { CounterNames, EngineCounters } from './counters.js';
import type { Probes } from './probe.js';

export interface EngineAdapter {
  readonly name: EngineName;
  readonly title: string;
  /** Generation routes besides those of OpenAI and Anthropic, in lower case. */
  readonly routes: readonly string[];
  /** Whether the engine sends one chunk per step or per token; undefined where that is unknown. */
  readonly chunk?: 'step' | 'token';
  /** Fields that make the response carry telemetry, and how to take their effect out of the response again. */
  readonly ask?: Asking;
  /** Recognizes a response of this engine that carries no telemetry. */
  readonly isResponse?: (body: JsonObject) => boolean;
  /** Telemetry in a response or a stream chunk, by choice; empty where there is none, or it is another engine's. */
  readonly read?: (response: JsonObject) => Claims;
  /** `owned_by` in GET /v1/models. */
  readonly owner?: string;
  /** Recognizes the server by what else it shows. */
  readonly isServer?: (probes: Probes) => boolean;
  readonly metricPrefix: RegExp;
  readonly counters: CounterNames;
  /** What makes the engine serve its metrics. */
  readonly metricsRemedy?: string;
  /** Doctor knows the rest from the counters. */
  readonly examine: (seen: Seen) => Partial<Findings> & Pick<Findings, 'perRequest'>;
  /** The field that limits the draft length of one request; undefined where the engine has none. */
  readonly limitDrafts?: (draftLength: number) => readonly [name: string, value: unknown];
}

export interface Asking {
  /** Fields to set on a request body; `stream_options` is merged with the client's. */
  readonly fields: (request: JsonObject) => JsonObject;
  /** Paths of response fields that appear only because of those fields, such as ['sglext', 'spec_tokens_details']. */
  readonly added: readonly (readonly string[])[];
  /** Whether asking for the usage adds `"usage": null` to the other chunks. */
  readonly addsNullUsage?: boolean;
}

/** What was seen of a running server without generating anything. */
export interface Seen {
  readonly probes: Probes;
  /** Undefined where the engine serves no metrics. */
  readonly metricNames: ReadonlySet<string> | undefined;
  readonly counters: EngineCounters | undefined;
}

/**
 * `on`: always reported. `asked`: reported when the request asks for it. `off`: not reported, see `remedy`. `never`: the
 * engine cannot. `unseen`: only a generation would show it.
 */
export type TelemetryState = 'on' | 'asked' | 'off' | 'never' | 'unseen';

export interface Telemetry {
  readonly state: TelemetryState;
  /** Where it is reported. */
  readonly text: string;
  /** The flag or field to add; null where nothing is to be done. */
  readonly remedy: string | null;
}

/** Null where the engine does not say. */
export const unknownDrafting = {
  isOn: null as boolean | null,
  method: null as string | null,
  drafter: null as string | null,
  /** Max draft tokens of a step along one path. */
  draftLength: null as number | null,
  isTree: null as boolean | null,
};
export type Drafting = Readonly<typeof unknownDrafting>;

export interface Findings {
  readonly version: string | null;
  readonly drafting: Drafting;
  readonly perRequest: Telemetry;
  readonly aggregate: Telemetry;
  readonly notes: readonly string[];
}

export const estimatedFromStreams = 'estimated from streams: tokens per chunk';

/** Counters without drafts show that nothing is drafted only where `isOff` follows from their absence. */
export function draftingByCounters({ counters, metricNames }: Seen, isOff = true): Drafting {
  const isOn = counters !== undefined ? true : metricNames === undefined || !isOff ? null : false;
  return { ...unknownDrafting, isOn, draftLength: counters?.draftLength ?? null };
}

export function report(state: TelemetryState, text: string, remedy: string | null = null): Telemetry {
  return { state, text, remedy };
}

/** OpenAI's streams carry the usage only when asked, and TensorRT-LLM and vLLM put telemetry beside it. */
export const askForUsage: Asking = {
  fields: (request) =>
    request.stream === true && ('messages' in request || 'prompt' in request)
      ? { stream_options: { include_usage: true } }
      : {},
  added: [],
};

const maxShown = 200;

/** Names come from an unknown server: strings only, and short enough to print. */
export function shownText(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value.slice(0, maxShown) : null;
}

export function shownCount(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 1e6 ? value : null;
}
