/**
 * Arms as they count. A search hands on only suffixes behind which the target keeps its answer, but it decodes them in a
 * batch, and in 16 bits a batch and a single sequence can round to different tokens. So the measured answer decides: where
 * it breaks the --keep rule, the arm counts as the prompt without a suffix. An arm without a suffix takes over the clean
 * arm's measurements, so its drop is exactly 0 even where measuring twice gives two results.
 */
import { satisfies, type KeepRule } from '../measure/kept-class.js';
import { isSearched } from './arms.js';
import type { ArmResult } from './result.js';

export function countArm(measured: ArmResult, clean: ArmResult, keep: KeepRule): ArmResult {
  if (!isSearched(measured.arm)) return measured;
  const { arm, repeat, slowOther, suffix, answer, compared, preservation } = measured;
  const { kept, editSimilarity: similarity } = preservation;
  if (measured.withoutSuffix !== null)
    return { ...clean, arm, repeat, withoutSuffix: measured.withoutSuffix, slowOther };
  if (satisfies(keep, kept, similarity)) return measured;
  return {
    ...clean,
    ...{ arm, repeat, slowOther },
    withoutSuffix: `The suffix kept the answer during the search but not when it was measured (--keep ${keep}; the answer is ${kept}).`,
    notKept: { suffix, answer: answer.text, similarity, compared },
  };
}
