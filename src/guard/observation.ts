/**
 * What is known about one answered request, whichever engine answered it. The judge, the records, the metrics and the page
 * read nothing else. The accepted length of a step includes the bonus token: 1 + accepted / steps.
 */
import type { DrafterSwitch } from '../decode/policies/policy-chooser.js';

/** A name from engines/engine-list.ts, or `unknown`. */
export type EngineName = string;

export const actionNames = ['shorter-drafts', 'plain-upstream', 'switch-drafter', 'rate-limit'] as const;
export type ActionName = (typeof actionNames)[number];

/**
 * `reported`: the engine counted steps and accepted tokens. `derived`: it counted tokens, and it is known to send one
 * chunk per step, or its totals give the steps. `estimated`: tokens per chunk, where a chunk may or may not be a step.
 */
export type Evidence = 'reported' | 'derived' | 'estimated';

export interface Speculation {
  readonly evidence: Evidence;
  /** Verification passes of the target, including those without a draft. */
  readonly steps: number;
  /** Accepted draft tokens, without the bonus tokens. */
  readonly accepted: number;
  /** Drafted tokens; 0 where the engine drafted nothing for this request. */
  readonly proposed: number | null;
  /** [a] is the number of steps that accepted a draft tokens. */
  readonly histogram: readonly number[] | null;
  readonly perStepAccepted: readonly number[] | null;
  readonly perStepProposed: readonly number[] | null;
  /** Max draft tokens of a step along one path. */
  readonly draftLength: number | null;
  /** Trees propose more tokens than a path can accept, so accepted / proposed is not comparable with chains. */
  readonly isTree: boolean;
  /** Mean time of a step in milliseconds, where the engine reports its decoding time and all steps are of one kind. */
  readonly stepMs?: number;
}

/** Requests are compared with others of the same stream. */
export interface Stream {
  /** As the engine lists it; models it does not list share one name. */
  readonly model: string;
  /** The normalized path of the request, as /v1/chat/completions. */
  readonly route: string;
}

export interface Observation extends Stream {
  /** The guard's own id of the request. */
  readonly id: string;
  /** The client's X-Request-Id and traceparent, and the engine's id of the response. */
  readonly clientRequestId?: string;
  readonly traceparent?: string;
  readonly engineRequestId?: string;
  /** When the response ended, in milliseconds since 1970. */
  readonly endedMs: number;
  /** An engine's name, or `unknown`. */
  readonly engine: string;
  /** The name that the operator's rule gives to the sender; never a key. */
  readonly tenant: string;
  readonly status: number;
  readonly ending: 'complete' | 'client-left' | 'upstream-failed' | 'refused';
  /** Which upstream answered: the one that drafts, or the one that does not. */
  readonly upstream: 'speculative' | 'plain';
  /** The measure in force for this request; absent where there was none. */
  readonly measure?: ActionName;
  /** The tenant is under a measure, and this request was drafted as usual to test whether it can be lifted. */
  readonly isProbe?: boolean;
  readonly isStream: boolean;
  readonly promptTokens: number | null;
  readonly completionTokens: number | null;
  readonly firstByteMs: number | null;
  readonly totalMs: number;
  /** Null where the engine reported nothing and nothing could be estimated. Steps of several choices are pooled. */
  readonly speculation: Speculation | null;
  /** [choice] Where a response has several choices and the engine reports each; null for one without drafts. */
  readonly choiceSpeculation?: readonly (Speculation | null)[];
  /** Drafter changes within the request, where the engine does so; `speculation` is then that of the first drafter. */
  readonly switches?: readonly DrafterSwitch[];
}

export function meanAcceptedLength({ steps, accepted }: Pick<Speculation, 'steps' | 'accepted'>): number {
  return steps === 0 ? 1 : 1 + accepted / steps;
}
