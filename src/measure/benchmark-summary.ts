/**
 * What a benchmark keeps of an answer, and summaries of it. Ratios are ratios of sums, and intervals are over prompts, the
 * independent unit. The speedup keeps both sides of a prompt together, since a long answer is long for both.
 */
import { meanOfRequestMeans, poolAcceptance } from '../decode/acceptance.js';
import type { Generation } from '../decode/request.js';
import { isSpeculative } from '../decode/request.js';
import type { SpeculativeGeneration } from '../decode/request.js';
import type { Prompt } from '../text/prompts/prompt-set.js';
import { jackknifeInterval, type Interval, pooledAcceptedLengthInterval } from './statistics.js';

export const plainSystem = { system: 'plain', policy: 'none' } as const;

export type RequestRecord = Readonly<
  Omit<ReturnType<typeof recordAnswer>, 'speculation'> & {
    /** Absent for plain decoding. */
    speculation?: ReturnType<typeof recordSpeculation> | undefined;
  }
>;

interface AnswerParts {
  readonly set: string;
  readonly prompt: Prompt;
  readonly system: string;
  readonly policy: string;
  readonly generation: Generation;
  /** Plain decoding's answer to the same prompt. */
  readonly plain: Generation;
  readonly isGreedy: boolean;
}

export function recordAnswer({ set, prompt, system, policy, generation, plain, isGreedy }: AnswerParts) {
  const { promptTokenIds, tokenIds, text, finishReason, prefillMs, decodeMs, tokensPerSecond } = generation;
  const equalsPlain = isGreedy ? tokenIds.join() === plain.tokenIds.join() : undefined;
  return {
    set,
    promptId: prompt.id,
    category: prompt.category,
    system,
    policy,
    promptTokens: promptTokenIds.length,
    tokenIds,
    text,
    finishReason,
    prefillMs,
    /** From the first token, which the prefill gives, to the last. */
    decodeMs,
    tokensPerSecond,
    speculation: isSpeculative(generation) ? recordSpeculation(generation, equalsPlain) : undefined,
  };
}

function recordSpeculation(generation: SpeculativeGeneration, equalsPlain: boolean | undefined) {
  const {
    acceptance,
    draftMs,
    verifyMs,
    overheadMs,
    targetPasses,
    drafterPasses,
    drafterFailed,
    lossReason,
  } = generation;
  return {
    acceptance,
    draftMs,
    verifyMs,
    overheadMs,
    targetPasses,
    drafterPasses,
    drafterFailed,
    /** Why the answer can differ from plain decoding's; undefined if it is lossless. */
    lossReason,
    /** Token for token; undefined where tokens are drawn and the two need not agree. */
    equalsPlain,
  };
}

/** `category` is absent for the whole set. */
export type SystemSummary = Readonly<ReturnType<typeof summariseSystems>[number] & { category?: string }>;
export type SpeculationSummary = NonNullable<SystemSummary['speculation']>;

export interface MeasuredUnit {
  /** [prompt][system], plain decoding first. */
  readonly records: readonly RequestRecord[];
  /** [system], for all prompts of the unit together, prefill included. */
  readonly times: readonly {
    readonly set: string;
    readonly system: string;
    readonly policy: string;
    readonly ms: number;
  }[];
}

export type BenchmarkResult = Readonly<ReturnType<typeof collectBenchmark>>;

/** The result follows from what was measured, wherever that was. */
export function collectBenchmark(
  measured: readonly MeasuredUnit[],
  {
    concurrency = 1,
    signal,
  }: {
    readonly concurrency?: number | undefined;
    readonly signal?: AbortSignal | undefined;
  },
) {
  const records = measured.flatMap((unit) => unit.records);
  const summaries = summariseBySet(records);
  const times = measured.flatMap((unit) => unit.times);
  const together = summaries.flatMap(({ set, system, policy, newTokens }) => {
    const own = times.filter((each) => each.set === set && each.system === system && each.policy === policy);
    const ms = own.reduce((sum, each) => sum + each.ms, 0);
    return ms > 0 ? [{ set, system, policy, tokensPerSecond: newTokens / (ms / 1000) }] : [];
  });
  return {
    records,
    /** One per set and system, plain decoding first. */
    summaries,
    /** The same per category, for the sets that have more than one: a pooled number hides them. */
    categories: summariseByCategory(records),
    /** All tokens of all answers over the time for them, where prompts were answered several at a time. */
    ...(concurrency > 1 ? { together } : {}),
    interrupted: signal?.aborted === true,
  };
}

type Records = readonly RequestRecord[];

export function summariseBySet(records: Records): SystemSummary[] {
  return [...groupBy(records, ({ set }) => set).values()].flatMap((ofSet) => summariseSystems(ofSet));
}

/** Only for sets with at least two categories. */
export function summariseByCategory(records: Records): SystemSummary[] {
  return [...groupBy(records, ({ set }) => set).values()].flatMap((ofSet) => {
    const categories = groupBy(ofSet, ({ category }) => category);
    if (categories.size < 2) return [];
    return [...categories].flatMap(([category = 'none', ofCategory]) =>
      summariseSystems(ofCategory).map((summary) => ({ ...summary, category })),
    );
  });
}

function summariseSystems(records: Records) {
  const plain = records.filter(({ speculation }) => speculation === undefined);
  const bySystem = groupBy(records, ({ system, policy }) => JSON.stringify([system, policy]));
  return [...bySystem.values()].map((own) => {
    const { set, system, policy } = own[0]!;
    return {
      set,
      system,
      policy,
      requests: own.length,
      newTokens: sum(own, ({ tokenIds }) => tokenIds.length),
      /** Mean over requests. */
      prefillMs: sum(own, ({ prefillMs }) => prefillMs) / own.length,
      /** Tokens after the first of each answer over the time for them, both summed. */
      tokensPerSecond: speedOf(own),
      speculation: summariseSpeculation(own, plain),
    };
  });
}

function summariseSpeculation(records: Records, plain: Records) {
  const parts = records.flatMap(({ speculation }) => speculation ?? []);
  if (parts.length === 0) return undefined;
  const acceptances = parts.map(({ acceptance }) => acceptance);
  const pooled = poolAcceptance(acceptances);
  const decodeMs = sum(records, (record) => record.decodeMs);
  const share = (ms: number): number => (decodeMs === 0 ? 0 : ms / decodeMs);
  const isCompared = parts.every(({ equalsPlain }) => equalsPlain !== undefined);
  return {
    steps: pooled.steps,
    /** 1 + accepted / steps, pooled, so the bonus token is in it; undefined if no request took a step. */
    meanAcceptedLength: pooled.steps > 0 ? pooledAcceptedLengthInterval(acceptances) : undefined,
    /** Every request weighs the same, however short: not the mean accepted length. */
    meanOfRequestMeans: meanOfRequestMeans(acceptances),
    acceptanceRate: pooled.acceptanceRate,
    /** [d] is the share of steps whose accepted path reached depth d + 1. */
    acceptanceByDepth: pooled.acceptanceByDepth,
    /** Tokens per second over those of plain decoding on the same prompts; undefined if there was nothing to decode. */
    speedup: speedupOf(records, plain),
    /** Of the time for decoding. */
    shares: {
      draft: share(sum(parts, ({ draftMs }) => draftMs)),
      verify: share(sum(parts, ({ verifyMs }) => verifyMs)),
      rest: share(sum(parts, ({ overheadMs }) => overheadMs)),
    },
    lossReason: parts.find(({ lossReason }) => lossReason !== undefined)?.lossReason,
    /** Answers that are not plain decoding's; undefined where tokens are drawn. A fault if they are lossless. */
    differingAnswers: isCompared
      ? parts.filter(({ equalsPlain }) => equalsPlain === false).length
      : undefined,
    drafterFailures: parts.filter(({ drafterFailed }) => drafterFailed).length,
  };
}

/** Whether answers differ from plain decoding's although they are lossless. */
export function isFaulty({ speculation }: SystemSummary): boolean {
  if (speculation === undefined || speculation.lossReason !== undefined) return false;
  return (speculation.differingAnswers ?? 0) > 0;
}

/** The prefill gives the first token, so it is not counted. */
function speedOf(records: Records): number {
  const tokens = sum(records, ({ tokenIds }) => tokenIds.length - 1);
  const ms = sum(records, ({ decodeMs }) => decodeMs);
  return tokens === 0 || ms === 0 ? 0 : tokens / (ms / 1000);
}

/** Answers that ended with their first token say nothing about speed and are left out on both sides. */
function speedupOf(records: Records, plain: Records): Interval | undefined {
  const plainById = new Map(plain.map((record) => [record.promptId, record]));
  const pairs = records.flatMap((own) => {
    const other = plainById.get(own.promptId);
    const isTimed = [own, other].every(
      (each) => each !== undefined && each.tokenIds.length > 1 && each.decodeMs > 0,
    );
    return isTimed ? [{ own, other: other! }] : [];
  });
  if (pairs.length === 0) return undefined;
  const interval = jackknifeInterval(
    pairs,
    (sample) => speedOf(sample.map(({ own }) => own)) / speedOf(sample.map(({ other }) => other)),
  );
  return { ...interval, low: Math.max(0, interval.low) };
}

function sum<T>(items: readonly T[], valueOf: (item: T) => number): number {
  return items.reduce((total, item) => total + valueOf(item), 0);
}

function groupBy<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
