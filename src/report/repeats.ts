/**
 * Whether the clean prompts, measured twice, gave the same answers and accepted lengths. Greedy decoding in float32 does;
 * in 16 bits it may not, and then a reader has to know before any other number. Above temperature 0 the second measurement
 * is another draw, which says nothing.
 */
import type { AuditResult, DrafterResult } from '../audit/result.js';
import { findPromptArms } from './arm-names.js';

interface Repeats {
  readonly prompts: number;
  readonly answers: number;
  readonly lengths: number;
}

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
function countRepeats({ prompts }: DrafterResult): Repeats {
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
