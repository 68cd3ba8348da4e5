/** What stands beside a table: the drop, each test and the prompts behind them, in one line without a full stop. */
import type { DrafterSummary } from '../audit/result.js';
import { controlNames } from './arm-names.js';
import type { Evidence } from './evidence.js';
import { countText, percentText, pValueText } from '../core/number-text.js';

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
