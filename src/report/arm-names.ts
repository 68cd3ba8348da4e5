/** What each row of an audit is called, and why it is there. */
import type { ArmName, ArmSummary, DrafterSummary, PromptResult, ArmResult } from '../audit/result.js';

export const armLabels: Readonly<Record<ArmName, string>> = {
  clean: 'no suffix',
  'clean-again': 'no suffix, again',
  random: 'random tokens',
  fluent: 'fluent text',
  'preservation-only': 'preservation only',
  unprojected: 'search, unprojected',
  attack: 'attack',
};

export const armPurposes: Readonly<Record<ArmName, string>> = {
  clean: 'the prompt as it is',
  'clean-again': 'A/A: the same prompt measured twice, to show what repeating alone changes',
  random: 'random allowed tokens of the same length: what any noise costs',
  fluent: 'ordinary text of the same length: what a longer prompt costs',
  'preservation-only': 'a search that only keeps the answer: what searching alone costs',
  unprojected: 'the same search without the projection that protects the answer',
  attack: 'the suffix that the audit found',
};

export function findArm(summary: DrafterSummary, arm: ArmName): ArmSummary | undefined {
  return summary.arms.find((row) => row.arm === arm);
}

export function findPromptArm(prompt: PromptResult, arm: ArmName): ArmResult | undefined {
  return prompt.arms.find((row) => row.arm === arm);
}
