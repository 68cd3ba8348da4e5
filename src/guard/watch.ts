/**
 * One request under watch, from its first step to its end. What it is compared with is fixed when it begins, so that requests
 * which end meanwhile cannot change its test.
 */
import type { Alarm } from './alarm.js';
import { describeRequestAlarm } from './alarm-text.js';
import type { Expectation } from './baseline.js';
import { findCause } from './causes.js';
import type { Likeness } from './prompt-likeness.js';
import type { UnlikelyTail } from './prompt-tail.js';
import type { RequestCounts } from './request-counts.js';
import type { Evidence as Measured, PromptTail, Stream } from './request-record.js';
import type { AlarmLevels, Evidence } from './sequential-test.js';
import { leastSteps, noEvidence, RequestTest, weighCounts } from './sequential-test.js';

/** What may be known about a request before its answer. */
export interface RequestFacts {
  /** How its steps are counted; those of one that is read off the stream are compared with the like. */
  readonly evidence?: Measured;
  readonly promptTokens?: number | null;
  readonly promptPrint?: readonly number[] | null;
  readonly promptTail?: PromptTail | undefined;
}

/** What a watch needs of the monitor. */
export interface WatchContext {
  readonly stream: Stream;
  readonly tenant: string;
  readonly id: string;
  readonly facts: RequestFacts;
  readonly levels: AlarmLevels;
  /** Evidence against the sharp floors from which a request rings. */
  readonly threshold: number;
  /** How many times the evidence that rings for others is needed (tenant-caution.ts). */
  readonly caution: number;
  readonly expectation: Expectation | undefined;
  isWide(): boolean;
  likenessOf(print: readonly number[]): Likeness;
  /** Undefined where the end of a prompt is a usual one. */
  findUnlikely(tail: PromptTail): UnlikelyTail | undefined;
  ring(alarm: Omit<Alarm, 'id'>): Alarm;
}

export class StepWatch {
  readonly hasRung = { low: false, high: false };
  /** Sides about which an alarm was told already, on another count of the same request. */
  readonly isTold = { low: false, high: false };
  private readonly test: RequestTest | undefined;

  constructor(private readonly context: WatchContext) {
    const { expectation } = context;
    this.test = expectation === undefined ? undefined : new RequestTest(expectation.hypothesis);
  }

  get counts(): RequestCounts | undefined {
    return this.test?.counts;
  }

  get now(): Evidence | undefined {
    return this.test?.now;
  }

  get peak(): Evidence | undefined {
    return this.test?.peak;
  }

  /** An alarm at most once for each side. */
  step(accepted: number, proposed: number | null, atMs: number): Alarm | undefined {
    const { test } = this;
    if (test === undefined) return undefined;
    const evidence = test.step(accepted, proposed);
    if (evidence === undefined) return undefined;
    const atFirst = test.acceptedAtFirst / leastSteps;
    return this.judge(evidence, test.counts, test.steps > 2 * leastSteps ? atFirst : null, atMs);
  }

  /** A finished request of which totals alone are known. */
  weigh(
    counts: RequestCounts,
    atMs: number,
  ): { readonly evidence: Evidence; readonly alarm: Alarm | undefined } {
    const { expectation } = this.context;
    if (expectation === undefined) return { evidence: noEvidence, alarm: undefined };
    const evidence = weighCounts(expectation.hypothesis, counts);
    return { evidence, alarm: this.judge(evidence, counts, null, atMs) };
  }

  private judge(
    evidence: Evidence,
    counts: RequestCounts,
    acceptedAtFirst: number | null,
    atMs: number,
  ): Alarm | undefined {
    const { threshold, levels, caution } = this.context;
    const isLow = evidence.low >= caution / levels.lowLevel || evidence.sharp >= caution * threshold;
    const side = isLow ? 'low' : evidence.high >= 1 / levels.highLevel ? 'high' : undefined;
    if (side === undefined || this.hasRung[side]) return undefined;
    this.hasRung[side] = true;
    if (this.isTold[side]) return undefined;
    return this.ring(
      side,
      side === 'low' ? Math.max(evidence.low, evidence.sharp) : evidence.high,
      counts,
      acceptedAtFirst,
      atMs,
    );
  }

  private ring(
    side: 'low' | 'high',
    eValue: number,
    counts: RequestCounts,
    acceptedAtFirst: number | null,
    atMs: number,
  ): Alarm {
    const { context } = this;
    const { facts, levels, stream, tenant, id } = context;
    const expectation = context.expectation!;
    const { promptPrint, promptTail } = facts;
    const { cause, because } = findCause({
      side,
      isWide: context.isWide(),
      share: counts.sums[0]! / counts.steps,
      floor: expectation.hypothesis.floors[0]!,
      acceptedAtFirst,
      accepted: counts.accepted / counts.steps,
      promptTokens: facts.promptTokens ?? null,
      longPrompt: expectation.longPrompt(),
      likeness: promptPrint && side === 'low' ? context.likenessOf(promptPrint) : undefined,
      tail: promptTail && side === 'low' ? context.findUnlikely(promptTail) : undefined,
    });
    const length = {
      seen: 1 + counts.accepted / counts.steps,
      steps: counts.steps,
      expected: expectation.band(counts.steps),
    };
    const chance = side === 'low' ? levels.lowShare + levels.lowLevel : levels.highShare + levels.highLevel;
    return context.ring({
      ...{ model: stream.model, route: stream.route },
      ...{ atMs, scope: 'request', cause, tenant, requestId: id, eValue },
      ...length,
      text: describeRequestAlarm(length, chance, because, expectation.isGrown),
    });
  }
}
