/** The verdict in sentences, with its doubts. Every number in them is in the table too. */
import type {
  ArmSummary,
  AuditResult,
  ControlName,
  DrafterResult,
  DrafterSummary,
} from '../../audit/result.js';
import { acceptedLengthText, countText, moreText, percentText, pValueText } from '../../core/number-text.js';
import { controlNames, findArm, findCounted, findPromptArms, keptText } from './audit-words.js';
import { negateInterval, rangeText } from '../table.js';
import type { Evidence, VerdictLevel } from './evidence.js';
import { fewestPrompts, fragileDrop, isReplay, severity, significanceLevel } from './evidence.js';

type Judged = Evidence & { readonly level: VerdictLevel };

/** What happened to a drafter, in about 20 words. */
export function summarizeDrafter({ drafter, summary }: DrafterResult, verdict: Judged): string {
  const { drop, promptsAudited, promptsWithoutSuffix } = summary;
  const { level, counted } = verdict;
  const end =
    level === 'inconclusive' || level === 'none'
      ? `but ${nameDoubt(summary, verdict)}`
      : `over ${countText(promptsAudited, 'prompt')}`;
  if (counted === 'attack' && promptsWithoutSuffix === promptsAudited)
    return `The search found no suffix inside the bounds for ${drafter}, so nothing is lost, ${end}.`;
  const suffix = counted === 'given' ? 'the given suffixes' : 'a suffix';
  const subject =
    level === 'robust' ? `${drafter} keeps its speed: with ${suffix}, it` : `With ${suffix}, ${drafter}`;
  const size = percentText(Math.abs(drop.estimate));
  const range = rangeText(drop.estimate < 0 ? negateInterval(drop) : drop, percentText);
  const lost = `${size} ${drop.estimate < 0 ? 'more' : 'fewer'} tokens per step`;
  const interval = range === undefined ? '' : ` (95 % interval ${range})`;
  return `${subject} accepts ${lost}${interval} on the same answers, ${end}.`;
}

/** The same, with the numbers that it rests on. */
export function describeDrafter(result: DrafterResult, verdict: Judged): string {
  const { summary } = result;
  const clean = findArm(summary, 'clean');
  const counted = findCounted(result);
  const length = (row: ArmSummary | undefined): string =>
    acceptedLengthText(row?.sameAnswer.estimate ?? null);
  const passes = (counted?.passes ?? NaN) / (clean?.passes ?? NaN);
  const numbers = [
    `from ${length(clean)} to ${length(counted)} tokens a step, so the target needs ${moreText(passes)} passes`,
    ...describeWithoutSuffix(summary),
    ...(counted === undefined ? [] : [`answers: ${keptText(counted.kept)}`]),
    describeEvidence(summary, verdict),
  ];
  return `${summarizeDrafter(result, verdict).slice(0, -1)}; ${numbers.join('; ')}.`;
}

/** The audited drafter with the worst level; of several, the one with the largest drop. */
export function findWorst<Verdict extends Judged & { readonly audited: boolean }>(
  results: readonly DrafterResult[],
  verdicts: readonly Verdict[],
): { readonly result: DrafterResult; readonly verdict: Verdict } | undefined {
  return verdicts
    .map((verdict, index) => ({ verdict, result: results[index]! }))
    .filter(({ verdict }) => verdict.audited)
    .sort(
      (left, right) =>
        severity.indexOf(right.verdict.level) - severity.indexOf(left.verdict.level) ||
        right.result.summary.drop.estimate - left.result.summary.drop.estimate,
    )[0];
}

function describeWithoutSuffix({ promptsWithoutSuffix }: DrafterSummary): string[] {
  if (promptsWithoutSuffix === 0) return [];
  const verbs = promptsWithoutSuffix === 1 ? 'has no suffix and counts' : 'have no suffix and count';
  return [`${countText(promptsWithoutSuffix, 'prompt')} ${verbs} as no drop`];
}

/** "n = 24, p = 0.003 against the weakest control (undirected search), p = 0.006 corrected for 2 drafters" */
export function describeEvidence(summary: DrafterSummary, evidence: Evidence): string {
  const { pValue, adjustedPValue, weakestControl, family } = evidence;
  const counted = `n = ${summary.promptsAudited}`;
  if (isReplay(summary)) return `${counted}, no test`;
  if (weakestControl === null) return `${counted}, p undefined`;
  const against = `${pValueText(pValue)} against the weakest control (${controlNames[weakestControl]})`;
  const corrected =
    family > 1 && adjustedPValue !== null
      ? `, ${pValueText(adjustedPValue)} corrected for ${countText(family, 'drafter')}`
      : '';
  return `${counted}, ${against}${corrected}`;
}

const rivals: Readonly<Record<ControlName, string>> = {
  clean: 'this could be chance',
  random: 'random tokens may do as much',
  fluent: 'ordinary text may do as much',
  undirected: 'an undirected search of equal effort may do as much',
};

const absences: Readonly<Record<ControlName, string>> = {
  clean: 'the prompts without a suffix were not measured',
  random: 'random tokens were not measured',
  fluent: 'fluent text was not measured',
  undirected: 'no search of equal effort was run',
};

/** Why a replay has no verdict and decides no gate. */
export const replayDoubt = 'these prompts chose the suffixes';

function nameDoubt(summary: DrafterSummary, evidence: Evidence): string {
  if (isReplay(summary)) return `${replayDoubt}, so replaying them proves nothing new`;
  const { promptsAudited, drop } = summary;
  const { missingControls, pValue, weakestControl } = evidence;
  const drafters = Math.max(1, evidence.family);
  const few = promptsAudited < fewestPrompts(drafters) ? [describeTooFew(promptsAudited, drafters)] : [];
  const certain = [...few, ...missingControls.map((control) => absences[control])];
  const unbounded = drop.estimate < fragileDrop && drop.high >= fragileDrop;
  if (unbounded && few.length === 0) return `a drop of up to ${percentText(drop.high)} is not ruled out`;
  if (certain.length > 0) return certain.join(' and ');
  if (weakestControl !== null && pValue !== null && pValue >= significanceLevel) {
    const { n = 0 } = summary.tests.find(({ against }) => against === weakestControl) ?? {};
    return n < fewestPrompts()
      ? `${controlNames[weakestControl]} was measured on ${countText(n, 'prompt')} only`
      : rivals[weakestControl];
  }
  return `chance is not excluded over ${countText(drafters, 'drafter')} at once`;
}

export function describeTooFew(prompts: number, drafters: number): string {
  const together = drafters === 1 ? '' : ` for ${drafters} drafters at once`;
  return `${countText(prompts, 'prompt')} cannot decide it${together} (${fewestPrompts(drafters)} or more can)`;
}

export function describeNothing({ setup, drafters }: AuditResult): string {
  const skipped = drafters.reduce((sum, { summary }) => sum + summary.promptsSkipped, 0);
  return (
    `Nothing was audited (n = 0, p undefined): ${countText(setup.promptCount, 'prompt')} given, ` +
    `${skipped} skipped over ${countText(drafters.length, 'drafter')}.`
  );
}

/** Without a record, nobody but the user knows whether these prompts chose the suffixes. */
export function describeUnknownOrigins({ drafters }: AuditResult): string[] {
  const given = drafters.flatMap(({ prompts }) =>
    prompts.flatMap((prompt) => findPromptArms(prompt, 'given')),
  );
  const unknown = new Set(given.filter(({ origin }) => origin === undefined).map(({ suffix }) => suffix));
  if (unknown.size === 0) return [];
  return [
    `Nothing says which prompts chose ${countText(unknown.size, 'given suffix')}: the verdict holds only if the prompts of this audit had no part in it.`,
  ];
}

/** Given suffixes that spell a role marker are measured, and flagged. */
export function describeRoleMarkers({ drafters }: AuditResult): string[] {
  const given = drafters.flatMap(({ prompts }) =>
    prompts.flatMap((prompt) => findPromptArms(prompt, 'given')),
  );
  const marked = given.filter(({ roleMarker }) => roleMarker !== undefined);
  if (marked.length === 0) return [];
  const markers = [...new Set(marked.map(({ roleMarker }) => `"${roleMarker!}"`))].join(', ');
  return [
    `${marked.length} of ${countText(given.length, 'given suffix')} ${marked.length === 1 ? 'contains' : 'contain'} a role marker of the chat template (${markers}): ` +
      'that changes the conversation, not only the prompt, so the effect is not that of a suffix alone.',
  ];
}

const maxFailed = 3;

/** Units that no worker could compute: what follows from them is missing. */
export function describeFailedUnits({ failedUnits = [] }: AuditResult): string[] {
  if (failedUnits.length === 0) return [];
  const shown = failedUnits.slice(0, maxFailed).map(({ unit, error }) => `${unit}: ${error}`);
  const more = failedUnits.length > maxFailed ? [`and ${failedUnits.length - maxFailed} more`] : [];
  return [
    `The result is without ${countText(failedUnits.length, 'unit')}. ${[...shown, ...more].join('; ')}`,
  ];
}

/**
 * Compares the two measurements of the clean prompts. Greedy decoding in float32 repeats exactly; in 16 bits it may not,
 * and then the report starts with a warning. Above temperature 0 the second measurement is another draw.
 */
export function describeRepeats({ setup, drafters }: AuditResult): string[] {
  const { temperature = 0, dtype } = setup.options;
  if (temperature !== 0) return [];
  const differing = drafters.flatMap((drafter) => {
    const { prompts, answers, lengths } = countRepeats(drafter);
    return answers + lengths === 0
      ? []
      : `${drafter.drafter}: ${answers} of ${prompts} answers and ${lengths} of ${prompts} accepted lengths differ`;
  });
  if (differing.length === 0) return [];
  const remedy =
    dtype === undefined || dtype === 'float32'
      ? 'This run computed in float32, where a repeat must be exact: this is a bug, please report it.'
      : `This run computed in ${dtype}. Run the audit again with --dtype float32.`;
  return [
    `Measuring the clean prompts twice did not give the same result (${differing.join('; ')}), ` +
      `so differences of this size are noise. ${remedy}`,
  ];
}

/** An answer differs if either measurement left the clean answer that plain decoding gave. */
function countRepeats({ prompts }: DrafterResult) {
  const pairs = prompts.flatMap((prompt) => {
    const [clean] = findPromptArms(prompt, 'clean');
    const [again] = findPromptArms(prompt, 'clean-again');
    return prompt.skipped !== null || clean === undefined || again === undefined ? [] : [{ clean, again }];
  });
  const count = (differs: (pair: (typeof pairs)[number]) => boolean): number => pairs.filter(differs).length;
  return {
    prompts: pairs.length,
    answers: count(({ clean, again }) => [clean, again].some((arm) => arm.preservation.kept !== 'identical')),
    lengths: count(
      ({ clean, again }) =>
        clean.sameAnswer.steps !== again.sameAnswer.steps ||
        clean.sameAnswer.accepted !== again.sameAnswer.accepted,
    ),
  };
}
