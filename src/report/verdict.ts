/**
 * The verdict line and the exit code, from one place. Two questions are kept apart:
 *
 * - The level is a claim, so it needs evidence: a drop counts as real only if the paired test finds it (p < 0.05) both
 *   against the prompt without a suffix and against random tokens, and robustness counts only if the interval of the
 *   drop ends below what would be called fragile and there were prompts enough for the test to find anything.
 * - The gate is a tripwire, so it compares the point estimates, significant or not: a pipeline that passes because
 *   too few prompts were audited would reward small audits.
 *
 * A result without an audited prompt for every drafter never passes.
 */
import type { AuditResult, DrafterResult, DrafterSummary } from '../audit/result.js';
import { findArm } from './arm-names.js';
import { acceptedLengthText, countText, fixed, percentText, pValueText } from './number-text.js';

export type VerdictLevel = 'robust' | 'fragile' | 'collapsed' | 'inconclusive';

export interface Gate {
  /** Fails when the pooled drop of any drafter is at least this share: 0.3 is 30 %. */
  readonly failIfDrop?: number | undefined;
  /** Fails when the attacked mean accepted length of any drafter is below this. */
  readonly failIfAcceptedLengthBelow?: number | undefined;
}

export interface GateCheck {
  readonly drafter: string;
  readonly name: keyof Gate;
  readonly passed: boolean;
  /** One sentence with the value and the limit. */
  readonly message: string;
}

export interface Verdict {
  readonly level: VerdictLevel;
  /** One sentence with numbers, n and p. */
  readonly headline: string;
  /** 0 passes, 3 says that something was not audited, 100 that a gate failed. */
  readonly exitCode: 0 | 3 | 100;
  readonly failures: readonly string[];
  /** One for each drafter, in the order of the result. */
  readonly drafters: readonly DrafterVerdict[];
  readonly checks: readonly GateCheck[];
}

export interface DrafterVerdict {
  readonly drafter: string;
  readonly level: VerdictLevel;
  readonly significant: boolean;
  readonly audited: boolean;
}

export const significanceLevel = 0.05;
export const collapseDrop = 0.3;
export const fragileDrop = 0.1;
/** With fewer pairs a one-sided signed-rank test cannot reach 0.05: 4 pairs give 1/16 at best. */
export const fewestPrompts = 5;

const severity: readonly VerdictLevel[] = ['robust', 'inconclusive', 'fragile', 'collapsed'];

export function judge(result: AuditResult, gate: Gate = {}): Verdict {
  const drafters = result.drafters.map(judgeDrafter);
  const audited = result.drafters.filter((_, index) => drafters[index]!.audited);
  const unaudited = drafters.filter((drafter) => !drafter.audited);
  const checks = audited.flatMap((drafter) => checkGate(drafter, gate));
  const failed = checks.filter(({ passed }) => !passed).map(({ message }) => message);
  const missing = unaudited.map(
    ({ drafter }) => `No prompt was audited for ${drafter}, so nothing is known about it.`,
  );
  if (drafters.length === 0) missing.push('No drafter was audited.');
  const worst = findWorst(audited, drafters);
  return {
    level: worst?.level ?? 'inconclusive',
    headline: worst === undefined ? describeNothing(result) : describe(worst.result, worst.level),
    exitCode: failed.length > 0 ? 100 : missing.length > 0 ? 3 : 0,
    failures: [...failed, ...missing],
    drafters,
    checks,
  };
}

function judgeDrafter({ drafter, summary }: DrafterResult): DrafterVerdict {
  const { drop, againstClean, againstRandom, promptsAudited } = summary;
  const audited = promptsAudited > 0 && Number.isFinite(drop.estimate);
  if (!audited) return { drafter, level: 'inconclusive', significant: false, audited };
  const significant = againstClean.pValue < significanceLevel && againstRandom.pValue < significanceLevel;
  const bounded = drop.high < fragileDrop && promptsAudited >= fewestPrompts;
  const level =
    significant && drop.estimate >= collapseDrop
      ? 'collapsed'
      : significant && drop.estimate >= fragileDrop
        ? 'fragile'
        : bounded
          ? 'robust'
          : 'inconclusive';
  return { drafter, level, significant, audited };
}

function findWorst(
  audited: readonly DrafterResult[],
  verdicts: readonly DrafterVerdict[],
): { result: DrafterResult; level: VerdictLevel } | undefined {
  const ranked = audited
    .map((result) => ({ result, level: verdicts.find(({ drafter }) => drafter === result.drafter)!.level }))
    .sort(
      (left, right) =>
        severity.indexOf(right.level) - severity.indexOf(left.level) ||
        right.result.summary.drop.estimate - left.result.summary.drop.estimate,
    );
  return ranked[0];
}

function checkGate({ drafter, summary }: DrafterResult, gate: Gate): GateCheck[] {
  const checks: GateCheck[] = [];
  const { failIfDrop, failIfAcceptedLengthBelow } = gate;
  if (failIfDrop !== undefined) {
    // Written so that a missing number fails.
    const passed = summary.drop.estimate < failIfDrop;
    const seen = `The mean accepted length of ${drafter} drops by ${percentText(summary.drop.estimate, 1)}`;
    const message = `${seen}; the gate ${passed ? 'allows less than' : 'fails from'} ${percentText(failIfDrop, 1)}${passed ? '' : ' on'}.`;
    checks.push({ drafter, name: 'failIfDrop', passed, message });
  }
  if (failIfAcceptedLengthBelow !== undefined) {
    const value = findArm(summary, 'attack')?.meanAcceptedLength.estimate ?? NaN;
    const passed = value >= failIfAcceptedLengthBelow;
    const seen = `The attacked mean accepted length of ${drafter} is ${acceptedLengthText(value)}`;
    const message = `${seen}; the gate asks for at least ${acceptedLengthText(failIfAcceptedLengthBelow)}.`;
    checks.push({ drafter, name: 'failIfAcceptedLengthBelow', passed, message });
  }
  return checks;
}

function describe(result: DrafterResult, level: VerdictLevel): string {
  const { drafter, summary } = result;
  const { drop, againstClean, againstRandom, promptsAudited } = summary;
  const clean = acceptedLengthText(findArm(summary, 'clean')?.meanAcceptedLength.estimate ?? null);
  const attacked = acceptedLengthText(findArm(summary, 'attack')?.meanAcceptedLength.estimate ?? null);
  const interval = `95 % interval ${fixed(drop.low * 100, 0)} to ${percentText(drop.high)}`;
  const change = `from ${clean} to ${attacked} tokens per step (drop ${percentText(drop.estimate)}, ${interval})`;
  const evidence =
    `n = ${promptsAudited}, ${pValueText(againstClean.pValue)} against no suffix, ` +
    `${pValueText(againstRandom.pValue)} against random tokens`;
  switch (level) {
    case 'collapsed':
      return `${nameSuffixes(summary)} collapse ${drafter} ${change}; ${evidence}.`;
    case 'fragile':
      return `${nameSuffixes(summary)} slow ${drafter} ${change}; ${evidence}.`;
    case 'robust':
      return `The strongest suffixes found hardly move the weakest drafter, ${drafter}: ${change}; ${evidence}.`;
    case 'inconclusive':
      return `The mean accepted length of ${drafter} went ${change}, but ${nameDoubt(summary)}; ${evidence}.`;
  }
}

function nameSuffixes(summary: DrafterSummary): string {
  const kept = findArm(summary, 'attack')?.withinBound ?? 0;
  return kept >= 1
    ? 'Suffixes that keep the answer'
    : `Suffixes (${percentText(kept)} of them keep the answer)`;
}

function nameDoubt(summary: DrafterSummary): string {
  const { againstClean, againstRandom, promptsAudited, drop } = summary;
  if (promptsAudited < fewestPrompts) {
    return `${countText(promptsAudited, 'prompt')} cannot decide it, ${fewestPrompts} or more can`;
  }
  if (!(againstClean.pValue < significanceLevel)) return 'this could be chance';
  if (!(againstRandom.pValue < significanceLevel)) return 'random tokens may do as much';
  return `a drop of up to ${percentText(drop.high)} is not ruled out`;
}

function describeNothing({ setup, drafters }: AuditResult): string {
  const skipped = drafters.reduce((sum, { summary }) => sum + summary.promptsSkipped, 0);
  return (
    `Nothing was audited (n = 0, p undefined): ${countText(setup.promptCount, 'prompt')} given, ` +
    `${skipped} skipped over ${countText(drafters.length, 'drafter')}.`
  );
}
