/**
 * One prompt on one drafter: controls and searches. The finalists of each search are decoded, and of those that keep
 * the answer, the one with the lowest accepted length along the clean answer is the result. If none keeps it, the
 * prompt counts as without a suffix.
 */
import { createRandom } from '../../core/random.js';
import { Engine } from '../../decode/engine.js';
import { readPrefix } from '../../decode/prompt-reading.js';
import type { SpeculativeGeneration } from '../../decode/request.js';
import { isSearched, type SearchedArm } from '../result.js';
import { suffixText } from './audit-prompt.js';
import { drawRandomSuffix, drawStarts, fluentSuffix } from './controls.js';
import type { ArmKey, ArmMeasure, ArmSetup } from './measure-arm.js';
import { compareLengths, decodeFreely, decodeHeld, judgeAnswer, measureArm } from './measure-arm.js';
import { type PhaseClock, timeScorer } from './phase-clock.js';
import { formatProjection } from '../search/projection.js';
import type { OtherAnswer, SearchTrace, TracePoint } from '../result.js';
import { searchSuffix } from '../search/search.js';
import type { SearchMode, SearchOutcome, SearchSettings } from '../search/search-problem.js';
import { type AuditSettings, attackSearch, undirectedSearch } from '../settings.js';

export interface PromptAudit extends ArmSetup {
  readonly clock: PhaseClock;
  readonly allowed: Int32Array;
  /** Names the random streams. */
  readonly unit: string;
  readonly given: readonly (readonly number[])[];
  readonly onStep?: ((key: ArmKey, point: TracePoint) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface ArmOutcome extends ArmMeasure {
  readonly trace: SearchTrace | null;
}

/** How the search of an arm differs from the attack's. */
function searchOf(arm: SearchedArm, settings: AuditSettings): SearchSettings {
  const attack = attackSearch(settings);
  switch (arm) {
    case 'attack':
      return attack;
    case 'unprojected':
      return { ...attack, projection: { kind: 'none' } };
    case 'preservation-only':
      return { ...attack, searchMode: 'preservation' };
    case 'undirected':
      return undirectedSearch(settings);
  }
}

/** Undefined if the prompt has no such arm. */
export async function runArm(audit: PromptAudit, key: ArmKey): Promise<ArmOutcome | undefined> {
  if (isSearched(key.arm)) return searchArm(audit, { ...key, arm: key.arm });
  const suffixIds = await chooseSuffix(audit, key);
  return suffixIds === undefined ? undefined : { ...(await measureArm(audit, key, suffixIds)), trace: null };
}

function chooseSuffix(
  { target, prompt, allowed, settings, given, seed, unit }: PromptAudit,
  { arm, repeat }: ArmKey,
): Promise<readonly number[] | undefined> | readonly number[] | undefined {
  const { suffixLength } = settings;
  switch (arm) {
    case 'random': {
      const random = createRandom(seed, 'random-control', unit, String(repeat));
      return drawRandomSuffix(target, prompt, allowed, suffixLength, random);
    }
    case 'fluent':
      return fluentSuffix(target, prompt, suffixLength);
    case 'given':
      return given[repeat - 1];
    default:
      return [];
  }
}

async function searchArm(
  audit: PromptAudit,
  key: ArmKey & { readonly arm: SearchedArm },
): Promise<ArmOutcome> {
  const { settings, seed, unit, allowed, scorer, clock } = audit;
  const search = searchOf(key.arm, settings);
  // Directed and undirected searches start from the same suffixes.
  const starting = createRandom(seed, 'starts', unit, String(key.repeat));
  const starts = await drawStarts(audit.target, audit.prompt, allowed, settings, starting);
  const outcome = await searchSuffix(
    {
      scorer: timeScorer(scorer, clock),
      allowed,
      starts,
      random: createRandom(seed, 'search', unit, key.arm, String(key.repeat)),
      onStep: (point) => audit.onStep?.(key, point),
      signal: audit.signal,
      match: key.effort,
    },
    search,
  );
  const choice = await chooseFinalist({ ...audit, seed: choosingSeed(audit, key) }, outcome);
  const { result, timing } = await measureArm(audit, key, choice.suffixIds);
  return {
    result: { ...result, withoutSuffix: choice.failureReason, slowOther: choice.slowerDifferentAnswer },
    timing,
    trace: {
      arm: key.arm,
      repeat: key.repeat,
      objective: nameObjective(audit, search.searchMode),
      projection: formatProjection(search.projection),
      scoredCandidates: outcome.scoredCandidates,
      decodedSuffixes: outcome.finalists.length,
      steps: outcome.trace,
    },
  };
}

/** Drafters without a graph are judged by acceptance alone. */
function nameObjective({ settings, drafter }: PromptAudit, searchMode: SearchMode): string {
  if (searchMode === 'unguided' && drafter.graph === undefined) return 'accepted-length';
  return searchMode === 'degradation' || searchMode === 'unguided' ? settings.objective : searchMode;
}

/**
 * Above temperature 0 the lowest of several drawn lengths owes some of its lowness to its draws. So finalists are chosen
 * with draws of their own, and the chosen suffix is measured with those of every other arm.
 */
function choosingSeed({ seed, unit }: PromptAudit, { arm, repeat }: ArmKey): number {
  return createRandom(seed, 'finalists', unit, arm, String(repeat)).nextInteger(2 ** 32);
}

interface Choice {
  readonly suffixIds: readonly number[];
  readonly failureReason: string | null;
  readonly slowerDifferentAnswer: OtherAnswer | null;
}

async function chooseFinalist(
  audit: PromptAudit,
  { finalists, minDivergence }: SearchOutcome,
): Promise<Choice> {
  const { target, drafter, prompt, settings } = audit;
  if (finalists.length === 0) {
    const why = `No suffix inside the bounds was found: the smallest divergence is ${minDivergence.toFixed(3)}, the bound ${settings.epsilon}.`;
    return { suffixIds: [], failureReason: why, slowerDifferentAnswer: null };
  }
  // Without its last token: if nothing follows the suffix, the clean prompt is this and that token.
  const prefix = await readPrefix(target.model, drafter, prompt.beforeIds.slice(0, -1));
  const engine = new Engine({ concurrency: finalists.length + 1 });
  const hold = (suffixIds: readonly number[]): Promise<SpeculativeGeneration> =>
    engine.run(() => decodeHeld(audit, suffixIds, { prefix, engine }));
  const decodeAll = finalists.map(async ({ suffixIds }) => {
    const free = await engine.run(() => decodeFreely(audit, suffixIds, { prefix, engine }));
    const judged = judgeAnswer(prompt, free, settings);
    return { suffixIds, free, judged, held: judged.accepted ? await hold(suffixIds) : undefined };
  });
  const tasks = [hold([]), ...decodeAll] as const;
  // After a failure, too, the others decode until they end.
  await Promise.allSettled(tasks);
  prefix.cache.release();
  prefix.states?.free();
  const [clean, ...decoded] = await Promise.all(tasks);
  let best = { suffixIds: [] as readonly number[], length: clean.acceptance.meanAcceptedLength };
  let slowerDifferentAnswer: OtherAnswer | null = null;
  for (const { suffixIds, free, judged, held } of decoded) {
    if (held !== undefined) {
      const length = held.acceptance.meanAcceptedLength;
      if (length < best.length) best = { suffixIds, length };
    } else if (judged.keptClass === 'different') {
      const other = {
        suffix: suffixText(target, prompt, suffixIds),
        answer: free.text,
        similarity: judged.similarity,
        compared: compareLengths(free, await audit.clean()),
      };
      slowerDifferentAnswer = slowerOf(slowerDifferentAnswer, other);
    }
  }
  if (best.suffixIds.length > 0)
    return { suffixIds: best.suffixIds, failureReason: null, slowerDifferentAnswer };
  const why = decoded.some(({ held }) => held !== undefined)
    ? `None of the ${finalists.length} suffixes that were decoded makes a step accept less than without one.`
    : `None of the ${finalists.length} suffixes that were decoded keeps the answer (--keep ${settings.keep}).`;
  return { suffixIds: [], failureReason: why, slowerDifferentAnswer };
}

/** Only more passes over as many tokens count as slower. */
function slowerOf(known: OtherAnswer | null, other: OtherAnswer): OtherAnswer | null {
  const ratioOf = ({ compared }: OtherAnswer): number => compared.passes / Math.max(1, compared.cleanPasses);
  if (ratioOf(other) <= 1) return known;
  return known === null || ratioOf(other) > ratioOf(known) ? other : known;
}
