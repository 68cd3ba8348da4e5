/** Lines next to a table: the drop, the tests, the prompts and the answers. */
import type { DrafterSummary } from '../../audit/result.js';
import { countText, percentText, pValueText } from '../../core/number-text.js';
import type { KeptClass } from '../../measure/kept-class.js';
import { isKept, keptClasses } from '../../measure/kept-class.js';
import { controlNames } from './arm-names.js';
import type { Evidence } from './evidence.js';

/** "drops by 25 % (95 % interval 19 % to 31 %)" */
export function describeDrop({ drop }: DrafterSummary): string {
  const rises = drop.estimate < 0 && percentText(drop.estimate, 1) !== '0.0 %';
  const [from, to] = rises ? [-drop.high, -drop.low] : [drop.low, drop.high];
  return (
    `${rises ? 'rises' : 'drops'} by ${percentText(Math.abs(drop.estimate), 1)} ` +
    `(95 % interval ${percentText(from, 1)} to ${percentText(to, 1)})`
  );
}

/** "p = 0.002 against no suffix, ...; the largest, corrected for 2 drafters: p = 0.006" */
export function describeTests({ tests }: DrafterSummary, evidence: Evidence): string {
  const { adjustedPValue, missingControls, family } = evidence;
  const single = tests.map(
    ({ against, pValue, n }) => `${pValueText(pValue)} against ${controlNames[against]} (n = ${n})`,
  );
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

/** Answers by class. */
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

const phrases: Readonly<Record<KeptClass, (one: boolean) => string>> = {
  identical: (one) => `${one ? 'is' : 'are'} identical`,
  task: (one) => `${one ? 'has' : 'have'} the same result`,
  similar: (one) => `${one ? 'is' : 'are'} similar`,
  different: (one) => `${one ? 'is' : 'are'} different`,
};

/** "22 of 24 answers are identical, 1 has the same result, 1 is similar" */
export function describeKept(kept: KeptCounts): string {
  const { total } = countAnswers(kept);
  const present = keptClasses.filter((name) => kept[name] > 0);
  const [first] = present;
  if (first === undefined) return 'no answer was compared';
  if (present.length === 1) {
    return total === 1
      ? `the answer ${phrases[first](true)}`
      : `all ${total} answers ${phrases[first](false)}`;
  }
  const parts = present.map((name, index) => {
    const count = index === 0 ? `${kept[name]} of ${total} answers` : kept[name];
    return `${count} ${phrases[name](kept[name] === 1)}`;
  });
  return parts.join(', ');
}
