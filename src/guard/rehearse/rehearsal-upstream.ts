/**
 * A rehearsal on the operator's engine. Engines that can simulate an accepted length are restarted by their operator with
 * the setting for it. This side sends the same few prompts, reads the engine's counters around each, and judges the
 * difference. An engine that simulates answers nonsense, so it must serve nobody else.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { describeCause } from '../../core/errors.js';
import type { Fetch } from '../engines/bounded-get.js';
import { getBounded } from '../engines/bounded-get.js';
import { readEngineCounters } from '../engines/counters.js';
import { Judge } from '../judge/judge.js';
import type { Alert, Verdict } from '../judge/verdict.js';
import { engines } from '../engines/engine-list.js';
import { parsePrometheusText } from '../engines/prometheus-text.js';
import type { EngineName } from '../observation.js';
import type { Scrape } from '../engines/scrape.js';
import { asObservation, createComparison } from '../engines/scrape.js';
import { asObject } from '../engines/claim.js';

/** The setting that simulates a mean accepted length, bonus token included; undefined where there is none. */
export function describeSwitch(engine: EngineName, length: number): string | undefined {
  switch (engine) {
    case 'vllm':
      return `in --speculative-config: "rejection_sample_method": "synthetic", "synthetic_acceptance_length": ${length}`;
    case 'sglang':
      return `SGLANG_SIMULATE_ACC_LEN=${length} in the environment of the server`;
    case 'tensorrt-llm':
      // It counts accepted draft tokens, without the bonus token; 0 means that nothing is forced.
      return `TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS=${Number((length - 1).toFixed(3))} in the environment of the server`;
    default:
      return undefined;
  }
}

export interface UpstreamRehearsal {
  readonly url: string;
  readonly model: string;
  /** Where its counters are, as /metrics. */
  readonly metricsPath: string;
  readonly prompts: readonly string[];
  readonly newTokens?: number;
  readonly usualRequests?: number;
  readonly falseAlerts?: number;
  readonly key?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly fetch?: Fetch;
  readonly pause?: (milliseconds: number) => Promise<unknown>;
}

export interface RehearsedRequest {
  /** `usual` until enough was learned; then `waiting` for the collapse. */
  readonly phase: 'usual' | 'waiting';
  readonly count: number;
  readonly meanAcceptedLength: number;
  /** From the first byte of the request to the last of its answer; null where the engine does not count tokens. */
  readonly tokensPerSecond: number | null;
  readonly verdict: Verdict;
  readonly alerts: readonly Alert[];
}

export type UpstreamEvent =
  | ({ readonly kind: 'request' } & RehearsedRequest)
  /** No response, as during a restart, or no draft counters. */
  | { readonly kind: 'silent'; readonly reason: string };

const spacingMs = 60_000;
const silenceMs = 2000;
const longestAnswerMs = 600_000;

/** Until a request collapses or is low after the usual ones, or it is aborted. */
export async function* rehearseUpstream(options: UpstreamRehearsal): AsyncGenerator<UpstreamEvent, void> {
  const { usualRequests = 60, falseAlerts = 0.01, signal, prompts } = options;
  const pause =
    options.pause ??
    ((milliseconds: number): Promise<unknown> =>
      wait(milliseconds, undefined, signal === undefined ? {} : { signal }).catch(() => undefined));
  const judge = new Judge({ falseAlerts });
  let compare = createComparison();
  let count = 0;
  let hasCollapsed = false;
  const isOver = (): boolean => hasCollapsed || signal?.aborted === true;
  const look = async (): Promise<Scrape> => {
    const address = new URL(options.url.replace(/\/$/, '') + options.metricsPath);
    const { status, text, failure, isCut } = await getBounded(address, options);
    const reason =
      failure ?? (status === 200 ? (isCut ? 'its metrics are too long' : null) : `it answered ${status}`);
    if (reason !== null) return fail(reason);
    return compare(readEngineCounters(parsePrometheusText(text).samples, engines), count * spacingMs);
  };
  let isCompared = false;
  while (!isOver()) {
    const before = isCompared ? undefined : await look();
    const answer =
      before?.kind === 'failure' ? before.reason : await ask(options, prompts[count % prompts.length]!);
    const after = typeof answer === 'string' ? fail(answer) : await look();
    if (typeof answer === 'string' || after.kind === 'failure') {
      if (isOver()) return;
      // A restarted engine counts from 0, so earlier counts cannot be compared.
      compare = createComparison();
      isCompared = false;
      if (after.kind === 'failure') yield { kind: 'silent', reason: after.reason };
      await pause(silenceMs);
      continue;
    }
    isCompared = true;
    const [record] = after.records;
    if (record === undefined) {
      yield { kind: 'silent', reason: 'it has drafted nothing for this request' };
      await pause(silenceMs);
      continue;
    }
    count += 1;
    const phase = count <= usualRequests ? 'usual' : 'waiting';
    const { verdict, alerts } = judge.judge({ ...asObservation(record), endedMs: count * spacingMs });
    const isLow = verdict.name === 'collapsed' || verdict.name === 'low' || alerts.length > 0;
    hasCollapsed = phase === 'waiting' && isLow;
    const { accepted, steps } = record.speculation;
    const tokensPerSecond = answer.tokens === null ? null : (1000 * answer.tokens) / answer.ms;
    yield {
      kind: 'request',
      ...{
        phase,
        count,
        tokensPerSecond,
        verdict,
        alerts,
        meanAcceptedLength: 1 + accepted / Math.max(1, steps),
      },
    };
  }
}

const fail = (reason: string): Scrape => ({ kind: 'failure', reason });

/** The reason where there is no answer. */
async function ask(
  { url, model, key, signal, newTokens = 128, fetch: send = fetch }: UpstreamRehearsal,
  content: string,
): Promise<string | { readonly tokens: number | null; readonly ms: number }> {
  const startMs = performance.now();
  const timeout = AbortSignal.timeout(longestAnswerMs);
  try {
    const response = await send(`${url.replace(/\/$/, '')}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      },
      body: JSON.stringify({
        ...{ model, max_tokens: newTokens, temperature: 0 },
        messages: [{ role: 'user', content }],
      }),
      redirect: 'error',
      signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
    });
    const body: unknown = await response.json();
    if (!response.ok) return `it answered ${response.status}`;
    const tokens = asObject(asObject(body)?.usage)?.completion_tokens;
    return { tokens: typeof tokens === 'number' ? tokens : null, ms: performance.now() - startMs };
  } catch (cause) {
    return describeCause(cause);
  }
}
