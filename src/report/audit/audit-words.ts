/** The rows of an audit (names, purposes, looks, and how to find them), and the sentences next to a table of them. */
import type {
  ArmName,
  ArmResult,
  ArmSummary,
  ControlName,
  DrafterResult,
  DrafterSummary,
  PromptResult,
} from '../../audit/result.js';
import { countedArm } from '../../audit/summary.js';
import { countText, percentText, pValueText } from '../../core/number-text.js';
import { acceptedLengthOf, poolCounts } from '../../measure/statistics.js';
import { type KeptClass, isKept, keptClasses } from '../../measure/kept-class.js';
import type { MarkStyle, MarkSymbol } from '../chart.js';
import { intervalText, negateInterval } from '../table.js';
import { type Evidence, isReplay } from './evidence.js';

export const armLabels: Readonly<Record<ArmName, string>> = {
  clean: 'no suffix',
  'clean-again': 'no suffix, again',
  random: 'random tokens',
  fluent: 'fluent text',
  undirected: 'undirected search',
  'preservation-only': 'preservation only',
  unprojected: 'search, unprojected',
  given: 'given suffix',
  attack: 'attack',
};

export const armPurposes: Readonly<Record<ArmName, string>> = {
  clean: 'the prompt as it is',
  'clean-again': 'A/A: the same prompt measured twice, to show what repeating alone changes',
  random: 'random allowed tokens of the same length, several draws: what any noise costs',
  fluent: 'ordinary text of the same length: what a longer prompt costs',
  undirected:
    'the attack without its gradients (or, if it has none, without its objective), of equal effort: what trying as many suffixes costs',
  'preservation-only': 'a search that only keeps the answer: what searching alone costs',
  unprojected: 'the same search without the projection that protects the answer',
  given: 'the suffix that was given; nothing was searched',
  attack: 'the suffix that the audit found',
};

/** How a sentence names what the attack was tested against. */
export const controlNames: Readonly<Record<ControlName, string>> = {
  clean: 'no suffix',
  random: 'random tokens',
  fluent: 'fluent text',
  undirected: 'undirected search',
};

export function findArm(summary: DrafterSummary, arm: ArmName): ArmSummary | undefined {
  return summary.arms.find((row) => row.arm === arm);
}

/** The row that counts against the others: the attack, or what was given. */
export function findCounted({ prompts, summary }: DrafterResult): ArmSummary | undefined {
  return findArm(summary, countedArm(prompts));
}

/** Every seed or draw of an arm, in their order. */
export function findPromptArms(prompt: PromptResult, arm: ArmName): ArmResult[] {
  return prompt.arms.filter((row) => row.arm === arm).sort((left, right) => left.repeat - right.repeat);
}

/** Accepted length along the clean answer over all seeds or draws of an arm; null where it was not measured. */
export function sameAnswerLength(prompt: PromptResult, arm: ArmName): number | null {
  const records = findPromptArms(prompt, arm).map(({ sameAnswer }) => sameAnswer);
  return records.length === 0 ? null : acceptedLengthOf(poolCounts(records));
}

/** Change of the accepted length on one prompt: -0.25 is a quarter less than without a suffix. */
export function promptChange(prompt: PromptResult, arm: ArmName): number | null {
  const clean = sameAnswerLength(prompt, 'clean');
  const length = sameAnswerLength(prompt, arm);
  return clean === null || length === null ? null : length / clean - 1;
}

/** How each row looks in every chart: a color and a shape, so that color is never the only difference. */
const styles: Readonly<Record<ArmName, readonly [color: string, symbol: MarkSymbol, dash?: string]>> = {
  clean: ['var(--accent)', 'circle'],
  'clean-again': ['var(--faint)', 'plus', '2 4'],
  random: ['var(--soft)', 'triangle', '3 3'],
  fluent: ['var(--soft)', 'square', '6 3'],
  undirected: ['var(--ink)', 'diamond', '1.5 3'],
  'preservation-only': ['var(--soft)', 'asterisk', '9 3 2 3'],
  unprojected: ['var(--ink)', 'times', '10 4'],
  given: ['var(--attack)', 'square'],
  attack: ['var(--attack)', 'square'],
};

export function armStyle(arm: ArmName): Required<MarkStyle> {
  const [color, symbol, dash] = styles[arm];
  const filled = arm === 'clean' || arm === 'attack' || arm === 'given';
  return { name: armLabels[arm], color, symbol, dash, filled };
}

/** "drops by 25 % (95 % interval 19 to 31 %), pooled over steps; the mean of the prompts' drops is 30 %" */
export function describeDrop({ prompts, summary: { drop } }: DrafterResult): string {
  const counted = countedArm(prompts);
  const changes = prompts
    .filter(({ skipped }) => skipped === null)
    .flatMap((prompt) => promptChange(prompt, counted) ?? []);
  const mean = changes.reduce((sum, change) => sum - change, 0) / changes.length;
  const rises = drop.estimate < 0 && percentText(drop.estimate, 1) !== '0.0 %';
  const size = intervalText(rises ? negateInterval(drop) : drop, (share) => percentText(share, 1));
  return `${rises ? 'rises' : 'drops'} by ${size}, pooled over steps; the mean of the prompts’ drops is ${percentText(mean, 1)}`;
}

/** "p = 0.002 against no suffix, ...; the largest, corrected for 2 drafters: p = 0.006" */
export function describeTests(summary: DrafterSummary, evidence: Evidence): string {
  const { adjustedPValue, missingControls, family } = evidence;
  const single = summary.tests.map(
    ({ against, pValue, n }) => `${pValueText(pValue)} against ${controlNames[against]} (n = ${n})`,
  );
  if (isReplay(summary)) return 'no test: these prompts chose the suffixes';
  const missing = missingControls.map((control) => `${controlNames[control]} not measured`);
  const corrected =
    family > 1 && adjustedPValue !== null
      ? `; the largest, corrected for ${countText(family, 'drafter')}: ${pValueText(adjustedPValue)}`
      : '';
  return [...single, ...missing].join(', ') + corrected;
}

/** "24 prompts audited, 1 of them without a suffix (counted as no drop), 2 skipped; 1 searched suffix did not keep ..." */
export function describeCounts({
  promptsAudited,
  promptsSkipped,
  promptsWithoutSuffix,
  armsNotKept = 0,
}: DrafterSummary): string {
  const without =
    promptsWithoutSuffix === 0
      ? ''
      : `, ${promptsWithoutSuffix} of them without a suffix (counted as no drop)`;
  const notKept =
    armsNotKept === 0
      ? ''
      : `; ${countText(armsNotKept, 'searched suffix')} did not keep the answer when measured (counted as no suffix)`;
  return `${countText(promptsAudited, 'prompt')} audited${without}, ${promptsSkipped} skipped${notKept}`;
}

type KeptCounts = Readonly<Record<KeptClass, number>>;

export const keptNames: Readonly<Record<KeptClass, string>> = {
  identical: 'identical, token for token',
  task: 'same task result in other words',
  similar: 'similar (at least 90 % of the tokens in place)',
  different: 'different: not kept',
};

/** "22 identical · 1 task · 1 similar · 0 different" */
export function keptText(kept: KeptCounts): string {
  return keptClasses.map((name) => `${kept[name]} ${name}`).join(' · ');
}

/** "22/1/1/0", in the same order. */
export function keptDigits(kept: KeptCounts): string {
  return keptClasses.map((name) => kept[name]).join('/');
}

export function countAnswers(kept: KeptCounts): { readonly kept: number; readonly total: number } {
  const sum = (names: readonly KeptClass[]): number => names.reduce((total, name) => total + kept[name], 0);
  return { kept: sum(keptClasses.filter(isKept)), total: sum(keptClasses) };
}
