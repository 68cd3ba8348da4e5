/**
 * Measures one arm of one prompt twice: held to the clean answer, which the audit compares, and freely, which a user
 * would get.
 */
import type { AcceptanceRecord } from '../../decode/acceptance.js';
import type { TokenOrigin } from '../../decode/answer.js';
import { decodePlain } from '../../decode/generate.js';
import { prefill, type ReadPrefix } from '../../decode/prompt-reading.js';
import type { PolicyChooser } from '../../decode/policies/policy-chooser.js';
import { type SpeculativeGeneration } from '../../decode/request.js';
import { decodeSpeculative } from '../../decode/generate.js';
import type { Target } from '../../decode/target.js';
import type { Drafter } from '../../draft/drafter.js';
import {
  classifyAnswer,
  countPasses,
  perplexityOf,
  repetitionShare,
  satisfies,
  taskOf,
} from '../../measure/kept-class.js';
import type { Engine } from '../../decode/engine.js';
import { findAddedMarkers } from '../../text/template/chat-template.js';
import { createTextStream } from '../../text/text-stream.js';
import type {
  AcceptanceSummary,
  AnswerRecord,
  ArmName,
  ArmResult,
  EqualLengths,
  PreservationMeasures,
} from '../result.js';
import type { Scorer } from '../search/scoring.js';
import type { KeepBounds, SearchEffort } from '../search/search-problem.js';
import type { AuditSettings } from '../settings.js';
import { type AuditPrompt, joinPrompt, suffixText } from './audit-prompt.js';
import { type ArmTiming, PhaseClock } from './phase-clock.js';

type Answer = Pick<SpeculativeGeneration, 'tokenIds' | 'text'>;

export function judgeAnswer(
  prompt: AuditPrompt,
  answer: Answer,
  { keep }: Pick<KeepBounds, 'keep'>,
): ReturnType<typeof classifyAnswer> & { readonly accepted: boolean } {
  const task = taskOf(prompt, prompt.answer.text);
  const judged = classifyAnswer({ clean: prompt.answer, other: answer, task });
  return { ...judged, accepted: satisfies(keep, judged.keptClass, judged.similarity) };
}

async function measurePreservation(
  target: Target,
  prompt: AuditPrompt,
  scorer: Scorer,
  suffixIds: readonly number[],
  answer: Answer,
  bounds: KeepBounds,
): Promise<PreservationMeasures> {
  const [score] = suffixIds.length === 0 ? [] : await scorer.score(suffixIds, [{ suffixIds, first: 0 }]);
  const divergence = score?.divergence ?? 0;
  const { keptClass, similarity, firstDifference, accepted } = judgeAnswer(prompt, answer, bounds);
  return {
    divergence,
    kept: keptClass,
    firstDifference,
    editSimilarity: similarity,
    answerPerplexity: await perplexity(target, joinPrompt(prompt, []), answer.tokenIds),
    repetition: repetitionShare(answer.tokenIds),
    suffixPerplexity: suffixIds.length === 0 ? null : await perplexity(target, prompt.beforeIds, suffixIds),
    withinBound: divergence <= bounds.epsilon && accepted,
  };
}

async function perplexity(
  { model }: Target,
  contextIds: readonly number[],
  continuation: readonly number[],
): Promise<number> {
  if (continuation.length === 0) return 1;
  const cache = model.createCache();
  try {
    const before = contextIds.slice(0, -1);
    if (before.length > 0) await prefill(model, cache, before, { want: [] });
    const tokens = Int32Array.from([contextIds.at(-1)!, ...continuation.slice(0, -1)]);
    const { logits, rows } = await model.forward({ tokens, cache, want: ['logits'] });
    rows.free();
    return perplexityOf(logits!, continuation);
  } finally {
    cache.release();
  }
}

export interface ArmMeasure {
  readonly result: ArmResult;
  readonly timing: Omit<ArmTiming, 'drafter' | 'phases'>;
}

/** Everything except the suffix. */
export interface DecodeSetup {
  readonly target: Target;
  readonly drafter: Drafter;
  readonly policy: PolicyChooser;
  readonly prompt: AuditPrompt;
  readonly settings: Pick<AuditSettings, 'maxNewTokens' | 'temperature'>;
  readonly seed: number;
  readonly clock?: PhaseClock | undefined;
}

export interface ArmSetup extends DecodeSetup {
  readonly scorer: Scorer;
  readonly settings: AuditSettings;
  /** The clean prompt decoded freely. */
  readonly clean: () => Promise<SpeculativeGeneration>;
}

export interface ArmKey {
  readonly arm: ArmName;
  readonly repeat: number;
  /** Of an undirected search: what the attack spent. */
  readonly effort?: SearchEffort;
}

const timedArms: readonly ArmName[] = ['clean', 'clean-again', 'attack', 'given'];

export async function measureArm(
  setup: ArmSetup,
  { arm, repeat }: ArmKey,
  suffixIds: readonly number[],
): Promise<ArmMeasure> {
  const { target, prompt, scorer, settings } = setup;
  // Above temperature 0, A/A is another draw from the same distribution.
  const seeded = arm === 'clean-again' ? { ...setup, seed: setup.seed + 1 } : setup;
  const held = await decodeHeld(seeded, suffixIds);
  const free = arm === 'clean' ? await setup.clean() : await decodeFreely(seeded, suffixIds);
  const suffix = suffixText(target, prompt, suffixIds);
  const { rendered } = prompt;
  const [roleMarker] = arm === 'given' ? findAddedMarkers(rendered, suffix, rendered.markers ?? []) : [];
  const plainTokensPerSecond = timedArms.includes(arm) ? await timePlain(setup, suffixIds, free) : null;
  return {
    result: {
      arm,
      repeat,
      suffix,
      suffixIds,
      withoutSuffix: null,
      sameAnswer: { ...summarise(held.acceptance), origins: spellOrigins(held.origins) },
      answer: recordAnswer(target, free),
      freeRunning: summarise(free.acceptance),
      compared: compareLengths(free, await setup.clean()),
      preservation: await measurePreservation(target, prompt, scorer, suffixIds, free, settings),
      slowOther: null,
      ...(roleMarker === undefined ? {} : { roleMarker }),
    },
    timing: {
      promptId: prompt.id,
      arm,
      repeat,
      prefillMs: free.prefillMs,
      decodeMs: free.decodeMs,
      draftMs: free.draftMs,
      verifyMs: free.verifyMs,
      tokensPerSecond: free.tokensPerSecond,
      plainTokensPerSecond,
      speedup: plainTokensPerSecond === null ? null : free.tokensPerSecond / plainTokensPerSecond,
    },
  };
}

/** What decodings of one prompt share, and the answer that they are held to. */
interface DecodeOptions {
  readonly prefix?: ReadPrefix | undefined;
  readonly engine?: Engine | undefined;
  readonly held?: readonly number[];
}

export const decodeHeld: typeof decodeFreely = (setup, suffixIds, options) =>
  decodeFreely(setup, suffixIds, { held: setup.prompt.answer.tokenIds, ...options });

export function decodeFreely(
  { target, drafter, policy, prompt, settings, seed, clock = new PhaseClock() }: DecodeSetup,
  suffixIds: readonly number[],
  options: DecodeOptions = {},
): Promise<SpeculativeGeneration> {
  return clock.during(options.held === undefined ? 'decoding' : 'exactLengths', () =>
    decodeSpeculative(target.model, drafter, {
      ...options,
      promptIds: joinPrompt(prompt, suffixIds),
      maxNewTokens: settings.maxNewTokens,
      sampling: { temperature: settings.temperature },
      seed,
      stopIds: target.stopIds,
      tokenizer: target.tokenizer,
      policy,
      mustDraft: true,
    }),
  );
}

/** The baseline of the speedup. */
async function timePlain(
  { target, prompt, settings, seed, clock = new PhaseClock() }: ArmSetup,
  suffixIds: readonly number[],
  { tokenIds }: SpeculativeGeneration,
): Promise<number | null> {
  const { tokensPerSecond } = await clock.during('decoding', () =>
    decodePlain(target.model, {
      promptIds: joinPrompt(prompt, suffixIds),
      maxNewTokens: tokenIds.length,
      sampling: { temperature: settings.temperature },
      seed,
      stopIds: target.stopIds,
    }),
  );
  return tokensPerSecond > 0 ? tokensPerSecond : null;
}

export function compareLengths(free: SpeculativeGeneration, clean: SpeculativeGeneration): EqualLengths {
  const tokens = Math.min(free.tokenIds.length, clean.tokenIds.length);
  const passesOf = ({ acceptance }: SpeculativeGeneration): number =>
    countPasses(acceptance.acceptedLengths, tokens);
  return { tokens, passes: passesOf(free), cleanPasses: passesOf(clean) };
}

function summarise(acceptance: AcceptanceRecord): AcceptanceSummary {
  const { steps, proposed, accepted, emitted, meanAcceptedLength, acceptanceByDepth, histogram } = acceptance;
  return { steps, proposed, accepted, emitted, meanAcceptedLength, acceptanceByDepth, histogram };
}

const spellOrigins = (origins: readonly TokenOrigin[]): string =>
  origins.map((origin) => (origin === 'accepted' ? 'a' : 'b')).join('');

function recordAnswer(
  { tokenizer }: Target,
  { promptTokenIds, tokenIds, text, origins, finishReason }: SpeculativeGeneration,
): AnswerRecord {
  const stream = createTextStream(tokenizer, promptTokenIds);
  const pieces = tokenIds.map((id) => stream.push(id));
  if (pieces.length > 0) pieces.push(`${pieces.pop() ?? ''}${stream.finish()}`);
  return { text, tokenIds, pieces, origins: spellOrigins(origins), finishReason };
}
