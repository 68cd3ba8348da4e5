/**
 * A rehearsal on our own engine: what a collapse costs, and whether the alarm rings. No attack is needed for it. The monitor
 * first learns from requests as they are; then a growing share of the draft tokens is spoiled, and every answer must stay the same,
 * for the target decides about it alone.
 */
import { MistletoeError } from '../core/errors.js';
import { createRandom } from '../core/random.js';
import { largest } from '../core/long-lists.js';
import type { Generation, GenerationRequest } from '../decode/plain.js';
import { decodePlain } from '../decode/plain.js';
import type { StepOutcome } from '../decode/policies/policy-chooser.js';
import type { SpeculativeGeneration } from '../decode/speculative.js';
import { always } from '../decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../decode/speculative.js';
import type { Drafter } from '../draft/drafter.js';
import { resolvePolicy } from '../draft/tree/grow-tree.js';
import type { CausalModel } from '../model/causal-model.js';
import type { Alarm } from './alarm.js';
import { Monitor } from './monitor.js';
import { spoilDrafter } from './rehearsal-drafter.js';
import type { RequestRecord } from './request-record.js';
import { leastSteps } from './sequential-test.js';

export interface RehearsalOptions {
  readonly model: CausalModel;
  readonly drafter: Drafter;
  /** As token ids. Those whose answers are long enough to be judged are asked in turn. */
  readonly prompts: readonly (readonly number[])[];
  readonly stopIds?: readonly number[];
  readonly draftLength?: number;
  readonly newTokens?: number;
  /** Requests before the collapse, and of each stage of it. */
  readonly usualRequests?: number;
  readonly stageRequests?: number;
  /** Shares of draft tokens that are spoiled, stage by stage. */
  readonly spoiledShares?: readonly number[];
  /** The share of benign requests that may ring. */
  readonly falseAlarms?: number;
  readonly seed?: number;
  readonly signal?: AbortSignal;
  /** Told after every request. */
  readonly onRequest?: (done: number, total: number) => void;
}

export interface RehearsalStage {
  readonly spoiledShare: number;
  readonly requests: number;
  readonly meanAcceptedLength: number;
  /** While decoding, prompts not counted. */
  readonly tokensPerSecond: number;
  /** What a step takes, however little of its draft is accepted: where nothing is, a token takes that long. */
  readonly stepMs: { readonly draft: number; readonly verify: number };
  readonly alarms: readonly RehearsalAlarm[];
}

export interface RehearsalAlarm {
  readonly alarm: Alarm;
  /** Which request of the stage, from 1, and tokens of its answer until then. */
  readonly request: number;
  readonly tokens: number;
}

export interface Rehearsal {
  /** Its lengths and times are those of the stages' prompts, to be compared with; its alarms are all. */
  readonly usual: RehearsalStage;
  /** Of the stages' prompts, without drafts. */
  readonly plainTokensPerSecond: number;
  readonly stages: readonly RehearsalStage[];
  /** Whether every answer was the one that plain decoding gives. */
  readonly areAnswersKept: boolean;
}

export const usualRehearsal = {
  draftLength: 4,
  newTokens: 128,
  usualRequests: 60,
  stageRequests: 4,
  spoiledShares: [0.25, 0.5, 0.75, 1],
  falseAlarms: 0.01,
} as const;

/** More would only make the beginning longer. */
const mostPrompts = 32;
const stream = { model: 'rehearsal', route: 'rehearsal' } as const;
/** On the monitor's clock. Longer than what a request waits before it is learnt from. */
const spacingMs = 660_000;

/** Undefined if it was aborted. */
export async function rehearse(options: RehearsalOptions): Promise<Rehearsal | undefined> {
  const settings = { ...usualRehearsal, ...options };
  const { model, draftLength, newTokens, usualRequests, stageRequests, spoiledShares } = settings;
  let prompts = settings.prompts.slice(0, mostPrompts);
  if (prompts.length === 0)
    throw new MistletoeError('usage', 'A rehearsal needs a prompt at least; none was given.');
  const drafter = spoilDrafter(settings.drafter, createRandom(settings.seed ?? 0, 'rehearsal'));
  const policy = always(resolvePolicy({ kind: 'chain', length: draftLength }, drafter));
  const monitor = new Monitor({ falseAlarms: settings.falseAlarms });
  const total = prompts.length + usualRequests + stageRequests * (1 + spoiledShares.length);
  let done = 0;

  const requestOf = (index: number): GenerationRequest => ({
    promptIds: prompts[index % prompts.length]!,
    ...{ maxNewTokens: newTokens, sampling: { temperature: 0 }, seed: 0, stopIds: settings.stopIds ?? [] },
    ...(settings.signal === undefined ? {} : { signal: settings.signal }),
  });
  const isOver = (): boolean => settings.signal?.aborted === true;
  const count = (): void => {
    done += 1;
    settings.onRequest?.(done, total);
  };

  async function runStage(spoiledShare: number, requests: number): Promise<Played> {
    drafter.spoiledShare = spoiledShare;
    const generations: SpeculativeGeneration[] = [];
    const alarms: RehearsalAlarm[] = [];
    for (let index = 0; index < requests && !isOver(); index++) {
      const id = `${spoiledShare}-${index}`;
      const atMs = done * spacingMs;
      const watch = monitor.begin(stream, 'rehearsal', id);
      let tokens = 1;
      const hear = (rung: readonly (Alarm | undefined)[]): void => {
        for (const alarm of rung) {
          if (alarm !== undefined && alarm.cause !== 'repetition')
            alarms.push({ alarm, request: index + 1, tokens });
        }
      };
      const generation = await decodeSpeculative(model, drafter, {
        ...requestOf(index),
        ...{ policy, mustDraft: true },
        onStep: ({ accepted, proposed }) => {
          tokens += accepted + 1;
          hear([watch.step(accepted, proposed, atMs)]);
        },
      });
      if (isOver()) break;
      hear(watch.finish(toRecord(generation, id, atMs)).alarms);
      generations.push(generation);
      count();
    }
    return { generations, stage: { spoiledShare, requests, ...summarise(generations), alarms } };
  }

  // Also a warming up, before anything is timed.
  const long: (readonly number[])[] = [];
  for (const [index, prompt] of prompts.entries()) {
    if (isOver()) return undefined;
    const { steps } = await decodeSpeculative(model, drafter, {
      ...requestOf(index),
      policy,
      mustDraft: true,
    });
    if (steps.length >= leastSteps) long.push(prompt);
    count();
  }
  requireLong(long, prompts.length);
  prompts = long;
  const { generations, stage } = await runStage(0, usualRequests);
  if (isOver()) return undefined;
  const asked = generations.filter((_, index) => index % prompts.length < stageRequests);
  const usual = { ...stage, ...summarise(asked) };
  requireBaseline(monitor, usual);
  await decodePlain(model, requestOf(0)); // its pass has a form of its own, which has not been run yet
  const plain: Generation[] = [];
  for (let index = 0; index < stageRequests && !isOver(); index++) {
    plain.push(await decodePlain(model, requestOf(index)));
    count();
  }
  const played: Played[] = [];
  for (const share of spoiledShares) if (!isOver()) played.push(await runStage(share, stageRequests));
  if (isOver()) return undefined;
  return {
    usual,
    plainTokensPerSecond: speedOf(plain),
    stages: played.map(({ stage }) => stage),
    areAnswersKept: played.every(({ generations }) =>
      generations.every(({ tokenIds }, index) => tokenIds.join() === plain[index]!.tokenIds.join()),
    ),
  };
}

interface Played {
  readonly generations: readonly SpeculativeGeneration[];
  readonly stage: RehearsalStage;
}

function requireLong(long: readonly unknown[], asked: number): void {
  if (long.length > 0) return;
  throw new MistletoeError(
    'incomplete',
    `None of ${asked} prompts has an answer of ${leastSteps} steps, which is the least that can be judged.`,
    { hint: 'Ask for longer answers (--max-new-tokens), or give other prompts (--prompts).' },
  );
}

function requireBaseline(monitor: Monitor, { meanAcceptedLength, requests }: RehearsalStage): void {
  if (monitor.snapshot().streams.some(({ baseline }) => baseline !== null)) return;
  throw new MistletoeError(
    'incomplete',
    `After ${requests} requests with a mean accepted length of ${meanAcceptedLength.toFixed(2)} nothing can be expected yet.`,
    { hint: 'Ask for more requests (--requests); about 45 are needed.' },
  );
}

function summarise(
  generations: readonly SpeculativeGeneration[],
): Pick<RehearsalStage, 'meanAcceptedLength' | 'tokensPerSecond' | 'stepMs'> {
  const steps = generations.flatMap((generation) => generation.steps);
  const meanOf = (pick: (step: StepOutcome) => number): number =>
    steps.reduce((sum, step) => sum + pick(step), 0) / Math.max(1, steps.length);
  return {
    meanAcceptedLength: 1 + meanOf(({ accepted }) => accepted),
    tokensPerSecond: speedOf(generations),
    stepMs: { draft: meanOf(({ draftMs }) => draftMs), verify: meanOf(({ verifyMs }) => verifyMs) },
  };
}

function speedOf(generations: readonly Generation[]): number {
  const tokens = generations.reduce((sum, { tokenIds }) => sum + Math.max(0, tokenIds.length - 1), 0);
  const ms = generations.reduce((sum, { decodeMs }) => sum + decodeMs, 0);
  return ms === 0 ? 0 : (1000 * tokens) / ms;
}

function toRecord(generation: SpeculativeGeneration, id: string, endedMs: number): RequestRecord {
  const { steps, tokenIds, promptTokenIds, prefillMs, decodeMs } = generation;
  const perStepProposed = steps.map(({ proposed }) => proposed);
  return {
    ...stream,
    ...{ id, endedMs, tenant: 'rehearsal', engine: 'mistletoe', status: 200, ending: 'complete' },
    ...{ upstream: 'speculative', isStream: false, firstByteMs: prefillMs, totalMs: prefillMs + decodeMs },
    ...{ promptTokens: promptTokenIds.length, completionTokens: tokenIds.length, promptPrint: null },
    speculation: {
      ...{ evidence: 'reported', steps: steps.length, histogram: null, isTree: false },
      accepted: steps.reduce((sum, { accepted }) => sum + accepted, 0),
      proposed: perStepProposed.reduce((sum, proposed) => sum + proposed, 0),
      perStepAccepted: steps.map(({ accepted }) => accepted),
      perStepProposed,
      draftLength: largest(perStepProposed, 0),
    },
  };
}
