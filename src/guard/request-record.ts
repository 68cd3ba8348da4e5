/**
 * What is known about one answered request, whichever engine answered it. Engines count differently; adapters turn what
 * they say into these words, and everything behind them (baselines, tests, metrics, the page) reads nothing else.
 * The accepted length of a step includes the bonus token: 1 + accepted / steps.
 */
import type { DrafterSwitch } from '../decode/policies/drafter-switches.js';

export const engineNames = [
  'vllm',
  'sglang',
  'tensorrt-llm',
  'llama-cpp',
  'lmdeploy',
  'tgi',
  'mistletoe',
  'unknown',
] as const;
export type EngineName = (typeof engineNames)[number];

/**
 * `reported`: the engine counted steps and accepted tokens. `derived`: it counted tokens, and the steps follow from them
 * up to steps without a draft. `estimated`: read off the stream, from the tokens of a chunk and the gaps between chunks.
 */
export type Evidence = 'reported' | 'derived' | 'estimated';

export interface Speculation {
  readonly evidence: Evidence;
  /** Verifications by the target. */
  readonly steps: number;
  /** Accepted draft tokens, the bonus tokens not counted. */
  readonly accepted: number;
  readonly proposed: number | null;
  /** [a] is the number of steps that accepted a draft tokens. */
  readonly histogram: readonly number[] | null;
  readonly perStepAccepted: readonly number[] | null;
  readonly perStepProposed: readonly number[] | null;
  /** Most draft tokens of a step along one path. */
  readonly draftLength: number | null;
  /** With trees the rate accepted / proposed says nothing beside that of chains. */
  readonly isTree: boolean;
}

/** Where requests are compared with their like. */
export interface Stream {
  readonly model: string;
  /** The path of the request, as /v1/chat/completions. */
  readonly route: string;
}

export interface PromptTail {
  /** Of the end that were looked at. */
  readonly tokens: number;
  /** Mean negative log-likelihood of one, in nats. */
  readonly surprisal: number;
}

export interface RequestRecord extends Stream {
  readonly id: string;
  /** When the answer ended, in milliseconds since 1970. */
  readonly endedMs: number;
  readonly engine: EngineName;
  /** Who asked: a name that the operator's rule gives, never a key. */
  readonly tenant: string;
  readonly status: number;
  readonly ending: 'complete' | 'client-left' | 'upstream-failed' | 'refused';
  /** Which upstream answered: the speculative one, or the one without. */
  readonly upstream: 'speculative' | 'plain';
  readonly isStream: boolean;
  readonly promptTokens: number | null;
  readonly completionTokens: number | null;
  readonly firstByteMs: number | null;
  readonly totalMs: number;
  /** Null where the engine says nothing and nothing could be estimated. Steps of several answers are pooled. */
  readonly speculation: Speculation | null;
  /** [choice] Of a request with several answers, where the engine tells them apart; null for one without drafts. */
  readonly choiceSpeculation?: readonly (Speculation | null)[];
  /** Hashes of what the prompt's end consists of, to find prompts that are alike; no text. */
  readonly promptPrint: readonly number[] | null;
  /** How unlikely the model finds the prompt's end, where the engine was asked and told; no text. */
  readonly promptTail?: PromptTail;
  /** When another drafter took over within the request, where the engine does so; `speculation` is then that of the first. */
  readonly switches?: readonly DrafterSwitch[];
}

export function meanAcceptedLength({ steps, accepted }: Pick<Speculation, 'steps' | 'accepted'>): number {
  return steps === 0 ? 1 : 1 + accepted / steps;
}
