/**
 * The verdict line and the exit code, from one place. Two questions are kept apart:
 *
 * - The level is a claim, so it needs evidence: a drop counts as real only if the attack beats every control
 *   (evidence.ts), and robustness counts only if the interval of the drop ends below what would be called fragile and
 *   there were prompts enough for the tests to find anything.
 * - The gate is a tripwire, so it compares the point estimates, significant or not: a pipeline that passes because
 *   too few prompts were audited would reward small audits.
 *
 * Both use the accepted length along the clean answer. A result without an audited prompt for every drafter never
 * passes.
 */
import type { AuditResult, DrafterResult } from '../../audit/result.js';
import { findCounted } from './audit-words.js';
import type { Evidence, VerdictLevel } from './evidence.js';
import { collapseDrop, fewestPrompts, fragileDrop, weighEvidence } from './evidence.js';
import {
  describeDrafter,
  describeFailedUnits,
  describeNothing,
  describeRepeats,
  describeRoleMarkers,
  findWorst,
} from './headline.js';
import { acceptedLengthText, percentText } from '../../core/number-text.js';

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
  /** Sentences to read before the numbers; absent if there are none. */
  readonly warnings?: readonly string[];
  /** 0: passed, 3: something was not audited, 100: a gate failed. */
  readonly exitCode: 0 | 3 | 100;
  readonly failures: readonly string[];
  /** One for each drafter, in the order of the result. */
  readonly drafters: readonly DrafterVerdict[];
  readonly checks: readonly GateCheck[];
}

export interface DrafterVerdict extends Evidence {
  readonly drafter: string;
  readonly level: VerdictLevel;
  readonly audited: boolean;
}

export function judge(result: AuditResult, gate: Gate = {}): Verdict {
  const evidence = weighEvidence(result.drafters);
  const drafters = result.drafters.map((drafter, index) => judgeDrafter(drafter, evidence[index]!));
  const audited = result.drafters.filter((_, index) => drafters[index]!.audited);
  const checks = audited.flatMap((drafter) => checkGate(drafter, gate));
  const failed = checks.filter(({ passed }) => !passed).map(({ message }) => message);
  const missing = drafters
    .filter((drafter) => !drafter.audited)
    .map(({ drafter }) => `No prompt was audited for ${drafter}, so nothing is known about it.`);
  if (drafters.length === 0) missing.push('No drafter was audited.');
  const warnings = [
    ...describeFailedUnits(result),
    ...describeRepeats(result),
    ...describeRoleMarkers(result),
  ];
  const worst = findWorst(result.drafters, drafters);
  return {
    level: worst?.verdict.level ?? 'inconclusive',
    headline: worst === undefined ? describeNothing(result) : describeDrafter(worst.result, worst.verdict),
    exitCode: failed.length > 0 ? 100 : missing.length > 0 ? 3 : 0,
    failures: [...failed, ...missing],
    ...(warnings.length === 0 ? {} : { warnings }),
    drafters,
    checks,
  };
}

function judgeDrafter({ drafter, summary }: DrafterResult, evidence: Evidence): DrafterVerdict {
  const { drop, promptsAudited } = summary;
  const audited = promptsAudited > 0 && Number.isFinite(drop.estimate);
  const enough = promptsAudited >= fewestPrompts();
  const real = audited && enough && evidence.significant;
  const level =
    real && drop.estimate >= collapseDrop
      ? 'collapsed'
      : real && drop.estimate >= fragileDrop
        ? 'fragile'
        : audited && enough && drop.high < fragileDrop
          ? 'robust'
          : 'inconclusive';
  return { drafter, level, audited, ...evidence, significant: real };
}

function checkGate(result: DrafterResult, gate: Gate): GateCheck[] {
  const { drafter, summary } = result;
  const checks: GateCheck[] = [];
  const { failIfDrop, failIfAcceptedLengthBelow } = gate;
  if (failIfDrop !== undefined) {
    // Written so that a missing number fails.
    const passed = summary.drop.estimate < failIfDrop;
    const seen = `Along the same answers the accepted length of ${drafter} drops by ${percentText(summary.drop.estimate, 1)}`;
    const message = `${seen}; the gate ${passed ? 'allows less than' : 'fails from'} ${percentText(failIfDrop, 1)}${passed ? '' : ' on'}.`;
    checks.push({ drafter, name: 'failIfDrop', passed, message });
  }
  if (failIfAcceptedLengthBelow !== undefined) {
    const value = findCounted(result)?.sameAnswer.estimate ?? NaN;
    const passed = value >= failIfAcceptedLengthBelow;
    const seen = `Along the same answers the attacked accepted length of ${drafter} is ${acceptedLengthText(value)}`;
    const message = `${seen}; the gate asks for at least ${acceptedLengthText(failIfAcceptedLengthBelow)}.`;
    checks.push({ drafter, name: 'failIfAcceptedLengthBelow', passed, message });
  }
  return checks;
}
