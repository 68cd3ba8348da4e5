/** One request from arrival to end. Writes the log, the metrics and the guard's record once. */
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { StepRecord } from '../decode/acceptance.js';
import type { AnswerProgress } from '../decode/worker/engine-messages.js';
import type { Generation } from '../decode/request.js';
import { isSpeculative } from '../decode/request.js';
import { type Observation, type Speculation, meanAcceptedLength } from '../guard/observation.js';
import type { AnswerRequest } from './answer-request.js';
import { finishedReasonOf, usageOf } from './answer-format.js';
import type { ApiError } from './api-error.js';
import type { HostedAnswer } from './engine-host.js';
import type { ServeMetrics } from './serve-metrics.js';
import { countByDrafter, countDrafts } from './speculation-report.js';

export interface ExchangeContext {
  readonly log: Logger;
  readonly metrics: ServeMetrics;
  readonly model: string;
  /** Whether prompts and answers may be written to the log. */
  readonly logsPrompts: boolean;
  readonly onRecord: ((record: Observation) => void) | undefined;
}

/** `choiceSpeculation` has an entry for each of several answers. */
type GeneratedFields = Pick<
  Observation,
  'promptTokens' | 'completionTokens' | 'speculation' | 'choiceSpeculation'
>;

/** The usual log status for a client that disconnected; it is never sent. */
const clientLeft = 499;

export class Exchange {
  readonly id: string;
  caller = 'anonymous';
  request: AnswerRequest | undefined;
  drafter: string | undefined;
  private readonly startMs = performance.now();
  private readonly lastMs = new Map<number, number>();
  /** [choice] of a request that may still fail */
  private readonly steps = new Map<number, StepRecord[]>();
  private firstTokenMs: number | undefined;
  private isOver = false;

  constructor(
    private readonly context: ExchangeContext,
    private readonly route: string,
  ) {
    this.id = `${route.includes('chat') ? 'chatcmpl' : 'cmpl'}-${randomUUID().replaceAll('-', '')}`;
  }

  progress(progress: AnswerProgress, choice: number): void {
    const nowMs = performance.now();
    const lastMs = this.lastMs.get(choice);
    this.context.metrics.progress(progress, lastMs === undefined ? undefined : nowMs - lastMs);
    this.lastMs.set(choice, nowMs);
    this.firstTokenMs ??= nowMs - this.startMs;
    const steps = this.steps.get(choice) ?? [];
    for (const step of progress.steps) steps.push(step);
    this.steps.set(choice, steps);
  }

  answered(answer: HostedAnswer): void {
    if (!this.begin()) return;
    const { metrics, logsPrompts, log } = this.context;
    const { generations, cut } = answer;
    const usage = usageOf(generations, this.request?.choices ?? 1);
    const tokens = { promptTokens: usage.prompt_tokens, completionTokens: usage.completion_tokens };
    const hasLeft = cut === 'client';
    const status = hasLeft ? clientLeft : 200;
    const finishes = [...new Set(generations.map(({ finishReason }) => finishReason))];
    const drafts = summarizeChoices(generations.map((each) => (isSpeculative(each) ? each.steps : [])));
    const { speculation } = drafts;
    const acceptedLength = speculation === null ? undefined : meanAcceptedLength(speculation);
    const totalMs = performance.now() - this.startMs;
    metrics.ended({
      ...tokens,
      totalMs,
      finishedReasons: generations.map(finishedReasonOf),
      firstTokenMs: this.firstTokenMs,
      acceptedLength,
      drafts: generations.map((generation) => this.countDrafts(generation)),
    });
    log.info({
      ...this.entry(status),
      ...tokens,
      finish: finishes.length === 1 ? finishes[0] : finishes,
      // The log leaves out what is undefined.
      cut,
      drafter: this.drafter,
      acceptedLength: acceptedLength && round(acceptedLength),
      firstTokenMs: this.firstTokenMs && round(this.firstTokenMs),
      prompts: logsPrompts ? this.request?.prompts : undefined,
      answers: logsPrompts ? generations.map(({ text }) => text) : undefined,
    });
    this.record(status, hasLeft ? 'client-left' : 'complete', totalMs, {
      ...tokens,
      ...drafts,
    });
  }

  /** @param status as sent to the client: 200 for a stream that failed after it began */
  failed(error: ApiError, status = error.status): void {
    if (!this.begin()) return;
    const { log, metrics } = this.context;
    metrics.refused(error.status);
    const entry = { ...this.entry(status), error: error.code, param: fieldOf(error) };
    // The message of a client error may quote the request, so it is not logged.
    const { cause = error } = error;
    const reason = cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
    if (error.status >= 500) log.error({ ...entry, cause: reason });
    else log.info(entry);
    const choices = [...this.steps].sort(([left], [right]) => left - right).map(([, steps]) => steps);
    const ending = error.status >= 500 ? 'upstream-failed' : 'refused';
    this.record(error.status, ending, performance.now() - this.startMs, {
      promptTokens: null,
      completionTokens: null,
      ...summarizeChoices(choices),
    });
  }

  /** For routes that generate nothing. */
  plain(status: number): void {
    if (this.begin()) this.context.log.info(this.entry(status));
  }

  private begin(): boolean {
    if (this.isOver) return false;
    return (this.isOver = true);
  }

  private entry(status: number) {
    const { id, route, caller, request } = this;
    return {
      id,
      route,
      status,
      caller,
      stream: request?.isStream,
      choices: request?.choices,
      ms: round(performance.now() - this.startMs),
    };
  }

  private countDrafts(generation: Generation): ReturnType<typeof countByDrafter> {
    if (!isSpeculative(generation) || this.drafter === undefined) return {};
    return countByDrafter(this.drafter, generation.steps);
  }

  private record(
    status: number,
    ending: Observation['ending'],
    totalMs: number,
    generated: GeneratedFields,
  ): void {
    const { onRecord, model } = this.context;
    if (onRecord === undefined || this.request === undefined) return;
    onRecord({
      id: this.id,
      endedMs: Date.now(),
      engine: 'mistletoe',
      model,
      route: this.route,
      tenant: this.caller,
      status,
      ending,
      upstream: this.drafter === undefined ? 'plain' : 'speculative',
      isStream: this.request.isStream,
      firstByteMs: this.firstTokenMs ?? null,
      totalMs,
      ...generated,
    });
  }
}

/** All answers of the request pooled, and each of several. */
function summarizeChoices(
  choices: readonly (readonly StepRecord[])[],
): Pick<GeneratedFields, 'speculation' | 'choiceSpeculation'> {
  const speculation = summarizeSteps(choices.flat());
  return choices.length > 1
    ? { speculation, choiceSpeculation: choices.map(summarizeSteps) }
    : { speculation };
}

function summarizeSteps(all: readonly StepRecord[]): Speculation | null {
  const steps = all.filter(({ proposed }) => proposed > 0);
  if (steps.length === 0) return null;
  const { accepted, proposed, histogram, depth, isTree } = countDrafts(steps);
  return {
    evidence: 'reported',
    steps: steps.length,
    accepted,
    proposed,
    histogram,
    perStepAccepted: steps.map((step) => step.accepted),
    perStepProposed: steps.map((step) => step.proposed),
    draftLength: depth,
    isTree,
  };
}

/** The top-level field. Nested and unknown names may be the client's text, so they are not logged. */
const fieldOf = ({ param, code }: ApiError): string | undefined =>
  param === null || code === 'unknown_field' ? undefined : param.split('.')[0];

const round = (value: number): number => Math.round(value * 100) / 100;
