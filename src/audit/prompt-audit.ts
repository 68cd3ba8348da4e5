/**
 * The audit of one prompt on one drafter: the controls, three searches, and for each search the best few suffixes
 * decoded for real, of which the one with the lowest measured accepted length wins among those that keep the answer.
 */
import { MistletoeError } from '../core/errors.js';
import { createRandom } from '../core/random.js';
import type { ReadPrefix } from '../decode/prefix.js';
import { readPrefix } from '../decode/prefix.js';
import { isClearlyAbove } from '../measure/running-test.js';
import { joinPrompt } from './audit-prompt.js';
import { keyOf } from './candidates.js';
import { drawRandomSuffix, fluentSuffix } from './controls.js';
import type { ArmMeasure, ArmSetup } from './measure-arm.js';
import { decodeArm, measureArm } from './measure-arm.js';
import { keepsAnswer } from './preservation.js';
import type { Projection } from './projection.js';
import { formatProjection, parseProjection } from './projection.js';
import type { ArmName, SearchTrace, TracePoint } from './result.js';
import type { Measure, SearchOutcome, SearchSettings } from './search.js';
import { searchSuffix } from './search.js';
import type { AuditSettings } from './settings.js';

export interface PromptAudit extends ArmSetup {
  readonly settings: AuditSettings;
  readonly seed: number;
  readonly allowed: Int32Array;
  /** Names the drafter and the prompt, so that every unit draws from streams of its own. */
  readonly unit: string;
  /** Suffixes that worked on earlier prompts: starts, not results. */
  readonly starts: (arm: ArmName) => readonly (readonly number[])[];
  readonly onStep?: (arm: ArmName, point: TracePoint) => void;
  readonly signal?: AbortSignal | undefined;
}

export interface ArmOutcome extends ArmMeasure {
  readonly trace: SearchTrace | null;
}

/** A search was stopped by the user: nothing of the unit counts. */
export class Interrupted extends Error {}

export type SearchedArm = 'preservation-only' | 'unprojected' | 'attack';

export async function runArm(audit: PromptAudit, arm: ArmName, repeat = 0): Promise<ArmOutcome | undefined> {
  switch (arm) {
    case 'clean':
    case 'clean-again':
      return { ...(await measureArm(audit, arm, [])), trace: null };
    case 'random': {
      const random = createRandom(audit.seed, 'random-control', audit.unit);
      const suffix = await drawRandomSuffix(
        audit.target,
        audit.prompt,
        audit.allowed,
        audit.settings.suffixLength,
        random,
      );
      return { ...(await measureArm(audit, arm, suffix)), trace: null };
    }
    case 'fluent': {
      const suffix = await fluentSuffix(audit.target, audit.prompt, audit.settings.suffixLength);
      return suffix === undefined ? undefined : { ...(await measureArm(audit, arm, suffix)), trace: null };
    }
    case 'preservation-only':
    case 'unprojected':
    case 'attack':
      return searchArm(audit, arm, repeat);
  }
}

async function searchArm(audit: PromptAudit, arm: SearchedArm, repeat: number): Promise<ArmOutcome> {
  const { settings, seed, unit, allowed } = audit;
  const names = [unit, arm, ...(repeat === 0 ? [] : [`repeat-${repeat}`])];
  const projection =
    arm === 'unprojected'
      ? parseProjection('none', 0)
      : parseProjection(settings.projection, settings.lambda);
  const random = createRandom(seed, 'search', ...names);
  const fresh = await drawRandomSuffix(audit.target, audit.prompt, allowed, settings.suffixLength, random);
  const inherited = repeat === 0 ? await keepSurviving(audit, audit.starts(arm)) : [];
  const measure = createMeasure(audit);
  const outcome = await searchSuffix(
    {
      scorer: audit.scorer,
      allowed,
      starts: [...inherited, fresh],
      random,
      measure,
      onStep: (point) => audit.onStep?.(arm, point),
      ...(audit.signal === undefined ? {} : { signal: audit.signal }),
    },
    searchSettings(settings, projection, arm),
  );
  if (outcome.interrupted) throw new Interrupted('The search was interrupted.');
  const measured = await measureArm(audit, arm, await selectByDecoding(audit, outcome, measure));
  const objective = arm === 'preservation-only' ? 'preservation' : settings.objective;
  return {
    ...measured,
    trace: { arm, objective, projection: formatProjection(projection), steps: outcome.trace },
  };
}

function searchSettings(settings: AuditSettings, projection: Projection, arm: SearchedArm): SearchSettings {
  return { ...settings, projection, drive: arm === 'preservation-only' ? 'preservation' : 'degradation' };
}

async function keepSurviving(
  audit: PromptAudit,
  starts: readonly (readonly number[])[],
): Promise<(readonly number[])[]> {
  if (starts.length === 0) return [];
  const survives = await audit.scorer.keepRoundTrips(starts);
  return starts.filter((_, index) => survives[index]);
}

/**
 * The surrogate searched; the clock-free truth chooses. Where no suffix keeps the answer the search has failed, and
 * the prompt counts as it is without one.
 */
async function selectByDecoding(
  audit: PromptAudit,
  { best, shortest, leastDivergence }: SearchOutcome,
  measure: Measure,
): Promise<readonly number[]> {
  if (best.length === 0) {
    const { epsilon } = audit.settings;
    throw new MistletoeError(
      'incomplete',
      `Every candidate was vetoed: the smallest divergence seen is ${leastDivergence.toFixed(3)}, the bound is ${epsilon}.`,
      {
        hint: `Raise --epsilon above ${leastDivergence.toFixed(2)}, or search longer (--steps, --candidates).`,
      },
    );
  }
  let winner = shortest;
  for (const candidate of best) {
    const toBeat = winner?.length ?? Infinity;
    const length = await measure(candidate.suffixIds, toBeat);
    if (length < toBeat) winner = { ...candidate, length };
  }
  return winner?.suffixIds ?? [];
}

/**
 * Accepted length of a suffix by decoding, or Infinity where it does not keep the answer or is longer than the
 * length to beat. Each is decoded once: only the selection asks again, when the length to beat is the lowest of all.
 */
function createMeasure(audit: PromptAudit): Measure {
  const { target, drafter, prompt } = audit;
  const known = new Map<string, number>();
  let prefix: ReadPrefix | undefined;
  return async (suffixIds, toBeat) => {
    const key = keyOf(suffixIds);
    // Without its last token: where nothing follows the suffix, the clean prompt is this and that token.
    prefix ??= await readPrefix(target.model, drafter, prompt.beforeIds.slice(0, -1));
    const length = known.get(key) ?? (await decodeWhileShort(audit, prefix, suffixIds, toBeat));
    known.set(key, length);
    return length;
  };
}

/**
 * Decodes to the end of the answer, or until it is clearly faster than what is to beat: now and then a suffix is given
 * up that would have won, and the time is others'.
 */
async function decodeWhileShort(
  audit: PromptAudit,
  prefix: ReadPrefix,
  suffixIds: readonly number[],
  toBeat: number,
): Promise<number> {
  const { target, prompt, bounds } = audit;
  const abort = new AbortController();
  const lengths: number[] = [];
  const answer = await decodeArm(audit, joinPrompt(prompt, suffixIds), {
    prefix,
    signal: abort.signal,
    onToken({ origin }) {
      if (origin === 'accepted') lengths[lengths.length - 1]! += 1;
      else lengths.push(1);
      if (isClearlyAbove(lengths, toBeat)) abort.abort();
    },
  });
  const length = answer.acceptance.meanAcceptedLength;
  const isSlower = answer.finishReason !== 'aborted' && length <= toBeat;
  if (!isSlower) return Infinity;
  return (await keepsAnswer(target, prompt, answer, bounds, { prefix })) ? length : Infinity;
}
