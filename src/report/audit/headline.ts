/** The verdict in sentences, with its doubts. Every number in them is in the table too. */
import type { AuditResult, ControlName, DrafterResult, DrafterSummary } from '../../audit/result.js';
import {
  acceptedLengthText,
  countText,
  fixed,
  moreText,
  percentText,
  pValueText,
} from '../../core/number-text.js';
import { controlNames, describeKept, findArm, findCounted, findPromptArms } from './audit-words.js';
import type { Evidence, VerdictLevel } from './evidence.js';
import { fewestPrompts, fragileDrop, severity, significanceLevel } from './evidence.js';

type Judged = Evidence & { readonly level: VerdictLevel };

export function describeDrafter(result: DrafterResult, verdict: Judged): string {
  const { drafter, summary } = result;
  const suffixes = verdict.counted === 'given' ? 'the given suffixes' : 'suffixes';
  const change = describeChange(result);
  const counted = findCounted(result);
  const rest = [
    ...describeWithoutSuffix(summary),
    counted === undefined ? 'no answer was compared' : describeKept(counted.kept),
    describeEvidence(summary, verdict),
  ];
  if (verdict.counted === 'attack' && summary.promptsWithoutSuffix === summary.promptsAudited) {
    const length = acceptedLengthText(counted?.sameAnswer.estimate ?? null);
    const seen = `The search found no suffix inside the bounds for ${drafter}, so nothing is lost: the accepted length stays at ${length} tokens a step`;
    const doubt = verdict.level === 'inconclusive' ? `, but ${nameDoubt(summary, verdict)}` : '';
    return `${seen}${doubt}; ${describeEvidence(summary, verdict)}.`;
  }
  switch (verdict.level) {
    case 'collapsed':
    case 'fragile':
      return `Along the same answers, ${suffixes} shorten the accepted length of ${drafter} ${change}; ${rest.join('; ')}.`;
    case 'robust': {
      const subject = verdict.counted === 'given' ? 'the given suffixes' : 'the suffixes that were found';
      return `Along the same answers, ${subject} hardly move the accepted length of ${drafter}: ${change}; ${rest.join('; ')}.`;
    }
    case 'inconclusive': {
      const doubt = nameDoubt(summary, verdict);
      return `Along the same answers, the accepted length of ${drafter} went ${change}, but ${doubt}; ${rest.join('; ')}.`;
    }
  }
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

/** What happened to the worst drafter, in about 20 words. `verdicts`: one for each drafter of the result. */
export function summarizeVerdict(
  results: readonly DrafterResult[],
  verdicts: readonly (Judged & { readonly audited: boolean })[],
): string {
  const worst = findWorst(results, verdicts);
  if (worst === undefined) return 'Nothing was audited: every prompt was skipped.';
  const { drafter, summary } = worst.result;
  const { drop, promptsAudited } = summary;
  const prompts = countText(promptsAudited, 'prompt');
  const interval =
    drop.n < 2 ? '' : ` (95 % interval ${fixed(100 * drop.low, 0)} to ${percentText(drop.high)})`;
  const lost = `${percentText(Math.abs(drop.estimate))} ${drop.estimate < 0 ? 'more' : 'fewer'} tokens per step`;
  if (promptsAudited < fewestPrompts())
    return `${prompts} ${promptsAudited === 1 ? 'is' : 'are'} too few to be sure: on the same answers, ${drafter} accepted ${lost} with the suffix.`;
  switch (worst.verdict.level) {
    case 'collapsed':
    case 'fragile':
      return `With a suffix, ${drafter} accepts ${lost}${interval} on the same answers, over ${prompts}.`;
    case 'robust':
      return `${drafter} keeps its speed: with a suffix it accepts ${lost}${interval} on the same answers, over ${prompts}.`;
    case 'inconclusive':
      return `${drafter} accepted ${lost} with a suffix${interval} on the same answers, but ${nameDoubt(summary, worst.verdict)}.`;
  }
}

/** "from 3.04 to 2.28 tokens a step (drop 25 %, 95 % interval 19 to 31 %), so the target needs 33 % more passes" */
function describeChange(result: DrafterResult): string {
  const { drop } = result.summary;
  const clean = findArm(result.summary, 'clean');
  const counted = findCounted(result);
  const length = (value: number | undefined): string => acceptedLengthText(value ?? null);
  const interval = `95 % interval ${fixed(drop.low * 100, 0)} to ${percentText(drop.high)}`;
  const passes = (counted?.passes ?? NaN) / (clean?.passes ?? NaN);
  return (
    `from ${length(clean?.sameAnswer.estimate)} to ${length(counted?.sameAnswer.estimate)} tokens a step ` +
    `(drop ${percentText(drop.estimate)}, ${interval}), so the target needs ${moreText(passes)} passes`
  );
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
  undirected: 'a search of equal effort without gradient and objective may do as much',
};

const absences: Readonly<Record<ControlName, string>> = {
  clean: 'the prompts without a suffix were not measured',
  random: 'random tokens were not measured',
  fluent: 'fluent text was not measured',
  undirected: 'no search of equal effort was run',
};

function nameDoubt(summary: DrafterSummary, evidence: Evidence): string {
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

function describeTooFew(prompts: number, drafters: number): string {
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
