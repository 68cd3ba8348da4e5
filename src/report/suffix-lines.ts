/** The suffixes that count, one JSON line each, so that they can be measured again with --suffix. */
import type { AuditResult } from '../audit/result.js';
import { countedArm } from '../audit/summary.js';
import { findPromptArms, sameAnswerLength } from './arm-names.js';

export function renderSuffixes({ drafters }: AuditResult): string {
  const lines = drafters.flatMap(({ drafter, prompts }) => {
    const counted = countedArm(prompts);
    return prompts.flatMap((prompt) => {
      const cleanLength = sameAnswerLength(prompt, 'clean');
      return findPromptArms(prompt, counted)
        .filter(({ withoutSuffix, suffix }) => withoutSuffix === null && suffix !== '')
        .map(({ suffix, sameAnswer, preservation }) =>
          JSON.stringify({
            prompt: prompt.promptId,
            drafter,
            suffix,
            sameAnswerLength: sameAnswer.meanAcceptedLength,
            cleanLength,
            kept: preservation.kept,
          }),
        );
    });
  });
  return lines.map((line) => `${line}\n`).join('');
}
