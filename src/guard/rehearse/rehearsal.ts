/**
 * A rehearsal on our own engine: what a collapse costs, where drafting stops paying, and whether the guard notices. The
 * judge first sees normal requests; then a growing share of the draft tokens is replaced, and every answer must stay the
 * same, because the target alone decides about it.
 */
import { MistletoeError } from '../../core/errors.js';
import { createRandom, type Random } from '../../core/random.js';
import { largest } from '../../core/vector.js';
import { type Generation, type GenerationRequest, decodePlain } from '../../decode/plain.js';
import { type StepOutcome, always } from '../../decode/policies/policy-chooser.js';
import { type SpeculativeGeneration, decodeSpeculative } from '../../decode/speculative.js';
import type { Drafter } from '../../draft/drafter.js';
import { resolvePolicy } from '../../draft/tree/grow-tree.js';
import type { CausalModel } from '../../model/causal-model.js';
import { Judge } from '../judge/judge.js';
import type { Alert, VerdictName } from '../judge/verdict.js';
import type { Observation } from '../observation.js';

export interface RehearsalOptions {
  readonly model: CausalModel;
  readonly drafter: Drafter;
  /** As token ids. Those whose answers are long enough to be judged are used in turn. */
  readonly prompts: readonly (readonly number[])[];
  readonly stopIds?: readonly number[];
  readonly draftLength?: number;
  readonly newTokens?: number;
  /** Requests before the collapse, and of each stage of it. */
  readonly normalRequests?: number;
  readonly stageRequests?: number;
  /** Shares of draft tokens that are replaced, stage by stage. */
  readonly spoiledShares?: readonly number[];
  /** Share of benign requests that may be called low. */
  readonly falseAlerts?: number | undefined;
  readonly seed?: number;
  readonly signal?: AbortSignal;
  /** Called after every request. */
  readonly onRequest?: (done: number, total: number) => void;
}

export interface RehearsalStage {
  readonly spoiledShare: number;
  readonly requests: number;
  readonly meanAcceptedLength: number;
  /** While decoding, without the prompt's pass. */
  readonly tokensPerSecond: number;
  /** Mean time of a step, however much of its draft is accepted. */
  readonly stepMs: { readonly draft: number; readonly verify: number };
  readonly verdicts: readonly { readonly name: VerdictName; readonly reason: string }[];
  /** With the request of the stage that led to it, from 1. */
  readonly alerts: readonly { readonly alert: Alert; readonly request: number }[];
}

export interface Rehearsal {
  /** Lengths and times of the stages' prompts, for comparison; verdicts and alerts of all requests. */
  readonly usual: RehearsalStage;
  /** Of the stages' prompts, without drafts. */
  readonly plainTokensPerSecond: number;
  /** Tokens per step from which drafting pays here: the time of a drafted step in plain tokens. */
  readonly breakEven: number;
  readonly stages: readonly RehearsalStage[];
  /** Whether every answer equals that of plain decoding. */
  readonly areAnswersKept: boolean;
}

const defaults = {
  ...{ draftLength: 4, newTokens: 128, normalRequests: 60, stageRequests: 4 },
  spoiledShares: [0.25, 0.5, 0.75, 1],
};

/** More would only make the start longer. */
const maxPrompts = 32;
const stream = { model: 'rehearsal', route: 'rehearsal' } as const;
/** Shorter answers cannot be recognized as collapsed. */
const minSteps = 16;
const spacingMs = 60_000;

interface Played {
  readonly generations: readonly SpeculativeGeneration[];
  readonly stage: RehearsalStage;
}

/** Undefined if it was aborted. */
export async function rehearse(options: RehearsalOptions): Promise<Rehearsal | undefined> {
  const settings = { ...defaults, ...options };
  const { model, draftLength, newTokens, normalRequests, stageRequests, spoiledShares } = settings;
  let prompts = settings.prompts.slice(0, maxPrompts);
  if (prompts.length === 0)
    throw new MistletoeError('usage', 'A rehearsal needs a prompt at least; none was given.');
  const drafter = spoilDrafter(settings.drafter, createRandom(settings.seed ?? 0, 'rehearsal'));
  const policy = always(resolvePolicy({ kind: 'chain', length: draftLength }, drafter));
  const judge = new Judge({ falseAlerts: settings.falseAlerts });
  const total = prompts.length + normalRequests + stageRequests * (1 + spoiledShares.length);
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
  const draft = async (index: number): Promise<SpeculativeGeneration> => {
    const request = { ...requestOf(index), policy, mustDraft: true };
    const generation = await decodeSpeculative(model, drafter, request);
    count();
    return generation;
  };

  async function runStage(spoiledShare: number, requests: number): Promise<Played> {
    drafter.spoiledShare = spoiledShare;
    const generations: SpeculativeGeneration[] = [];
    const verdicts: { name: VerdictName; reason: string }[] = [];
    const alerts: { readonly alert: Alert; readonly request: number }[] = [];
    for (let index = 0; index < requests && !isOver(); index++) {
      const id = `${spoiledShare}-${index}`;
      const atMs = done * spacingMs;
      const generation = await draft(index);
      if (isOver()) break;
      const { verdict, alerts: fired } = judge.judge(toObservation(generation, id, atMs));
      verdicts.push({ name: verdict.name, reason: verdict.reason });
      alerts.push(...fired.map((alert) => ({ alert, request: index + 1 })));
      generations.push(generation);
    }
    return { generations, stage: { spoiledShare, requests, ...summarize(generations), verdicts, alerts } };
  }

  // Also warms up, before anything is timed.
  const long: (readonly number[])[] = [];
  for (const [index, prompt] of prompts.entries()) {
    if (isOver()) return undefined;
    const { steps } = await draft(index);
    if (steps.length >= minSteps) long.push(prompt);
  }
  if (long.length === 0) {
    const message = `None of ${prompts.length} prompts has an answer of ${minSteps} steps, the minimum for judging it.`;
    const hint = 'Ask for longer answers (--max-new-tokens), or give other prompts (--prompts).';
    throw new MistletoeError('incomplete', message, { hint });
  }
  prompts = long;
  const { generations, stage } = await runStage(0, normalRequests);
  if (isOver()) return undefined;
  const asked = generations.filter((_, index) => index % prompts.length < stageRequests);
  const usual = { ...stage, ...summarize(asked) };
  await decodePlain(model, requestOf(0)); // compiles the plain pass before it is timed
  const plain: Generation[] = [];
  for (let index = 0; index < stageRequests && !isOver(); index++) {
    plain.push(await decodePlain(model, requestOf(index)));
    count();
  }
  const played: Played[] = [];
  for (const share of spoiledShares) if (!isOver()) played.push(await runStage(share, stageRequests));
  if (isOver()) return undefined;
  const plainTokensPerSecond = speedOf(plain);
  const steps = usual.meanAcceptedLength / Math.max(usual.tokensPerSecond, 1e-9);
  return {
    usual,
    plainTokensPerSecond,
    breakEven: Math.max(1, steps * plainTokensPerSecond),
    stages: played.map(({ stage }) => stage),
    areAnswersKept: played.every(({ generations }) =>
      generations.every(({ tokenIds }, index) => tokenIds.join() === plain[index]!.tokenIds.join()),
    ),
  };
}

function summarize(
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

function toObservation(generation: SpeculativeGeneration, id: string, endedMs: number): Observation {
  const { steps, tokenIds, promptTokenIds, prefillMs, decodeMs } = generation;
  const perStepProposed = steps.map(({ proposed }) => proposed);
  return {
    ...stream,
    ...{ id, endedMs, tenant: 'rehearsal', engine: 'mistletoe', status: 200, ending: 'complete' },
    ...{ upstream: 'speculative', isStream: false, firstByteMs: prefillMs, totalMs: prefillMs + decodeMs },
    ...{ promptTokens: promptTokenIds.length, completionTokens: tokenIds.length },
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

// A drafter that fails as often as it is told to. The target rejects what is wrong, so answers stay as they are.
interface SpoiledDrafter extends Drafter {
  /** The share of draft tokens that are replaced by others; may be changed between steps. */
  spoiledShare: number;
}

/** Chains only, at temperature 0: there a replaced token is rejected, unless the drafter was wrong and the other is right. */
export function spoilDrafter(inner: Drafter, random: Random): SpoiledDrafter {
  const { system, name, reads, maximumDepth, vocabularySize, taps, parameterCount } = inner;
  const replace = (token: number): number =>
    (token + 1 + random.nextInteger(vocabularySize - 1)) % vocabularySize;
  const spoiled: SpoiledDrafter = {
    ...{ system, name, reads, maximumDepth, vocabularySize, taps, parameterCount },
    // What it drafts no longer follows from its weights.
    ...{ spoiledShare: 0, isChainOnly: true, graph: undefined },
    prepare: ({ chains = [] } = {}) => inner.prepare({ chains }),
    startSession(scheduler) {
      const session = inner.startSession(scheduler);
      if (session.draftChain === undefined) {
        session.close();
        throw new MistletoeError('usage', `${name} drafts no chains in one go, which a rehearsal needs.`, {
          hint: 'Rehearse with another drafter, for example eagle3 or ngram.',
        });
      }
      return {
        get room() {
          return session.room;
        },
        isDeterministic: session.isDeterministic === true,
        observe: (verified) => {
          session.observe(verified);
        },
        catchUp: async () => {
          await session.catchUp?.();
        },
        expand: (draft, nodes, want) => session.expand(draft, nodes, want),
        draftChain: async (length) => {
          const tokens = await session.draftChain!(length);
          return tokens.map((token) => (random.next() < spoiled.spoiledShare ? replace(token) : token));
        },
        close: () => {
          session.close();
        },
      };
    },
  };
  return spoiled;
}
