/**
 * The verdict line and the exit code, from one place. Two questions are kept apart:
 *
 * - The level is a claim, so it needs evidence: a drop counts as real only if the attack beats every control
 *   (evidence.ts), and robustness counts only if the interval of the drop ends below what would be called fragile and
 *   there were prompts enough for the tests to find anything.
 * - The gate fails where the point estimate reaches the limit, significant or not. It passes only with enough prompts
 *   and the whole interval on the passing side, whatever the level; otherwise it is undecided. So an audit can't pass by
 *   being too small.
 *
 * Both use the accepted length along the clean answer. A result without an audited prompt for every drafter never
 * passes, and suffixes replayed on the prompts that chose them decide neither.
 */
import type { AuditResult, DrafterResult, DrafterSummary } from '../../audit/result.js';
import type { Interval } from '../../measure/statistics.js';
import { type GateCode, settleGate } from '../gate.js';
import { intervalText } from '../table.js';
import { findCounted } from './audit-words.js';
import type { Evidence, VerdictLevel } from './evidence.js';
import { collapseDrop, fewestPrompts, fragileDrop, isReplay, weighEvidence } from './evidence.js';
import {
  describeDrafter,
  describeFailedUnits,
  describeNothing,
  describeRepeats,
  describeRoleMarkers,
  describeTooFew,
  describeUnknownOrigins,
  findWorst,
  replayDoubt,
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
  readonly outcome: 'passed' | 'failed' | 'undecided';
  /** One sentence with the value, its interval, and the limit. */
  readonly message: string;
}

export interface Verdict {
  readonly level: VerdictLevel;
  /** One sentence with numbers, n and p. */
  readonly headline: string;
  /** Sentences to read before the numbers; absent if there are none. */
  readonly warnings?: readonly string[];
  readonly exitCode: GateCode;
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
  const messagesOf = (wanted: GateCheck['outcome']): string[] =>
    checks.filter(({ outcome }) => outcome === wanted).map(({ message }) => message);
  const missing = drafters
    .filter((drafter) => !drafter.audited)
    .map(({ drafter }) => `No prompt was audited for ${drafter}, so nothing is known about it.`);
  if (drafters.length === 0) missing.push('No drafter was audited.');
  const warnings = [
    ...describeFailedUnits(result),
    ...describeRepeats(result),
    ...describeRoleMarkers(result),
    ...describeUnknownOrigins(result),
  ];
  const worst = findWorst(result.drafters, drafters);
  return {
    level: worst?.verdict.level ?? 'inconclusive',
    headline: worst === undefined ? describeNothing(result) : describeDrafter(worst.result, worst.verdict),
    ...settleGate({ failed: messagesOf('failed'), missing, undecided: messagesOf('undecided') }),
    ...(warnings.length === 0 ? {} : { warnings }),
    drafters,
    checks,
  };
}

function judgeDrafter({ drafter, summary }: DrafterResult, evidence: Evidence): DrafterVerdict {
  const { promptsAudited, drop } = summary;
  const audited = promptsAudited > 0 && Number.isFinite(drop.estimate);
  const enough = audited && promptsAudited >= fewestPrompts();
  const significant = enough && evidence.significant;
  const level = isReplay(summary) ? 'none' : findLevel(drop, { enough, significant });
  return { drafter, level, audited, ...evidence, significant };
}

function findLevel(
  drop: Interval,
  { enough, significant }: { readonly enough: boolean; readonly significant: boolean },
): VerdictLevel {
  if (significant && drop.estimate >= collapseDrop) return 'collapsed';
  if (significant && drop.estimate >= fragileDrop) return 'fragile';
  return enough && drop.high < fragileDrop ? 'robust' : 'inconclusive';
}

function checkGate(result: DrafterResult, { failIfDrop, failIfAcceptedLengthBelow }: Gate): GateCheck[] {
  const { drafter, summary } = result;
  const { drop } = summary;
  const checks: GateCheck[] = [];
  if (failIfDrop !== undefined) {
    const limit = percentText(failIfDrop, 1);
    checks.push({
      drafter,
      name: 'failIfDrop',
      ...checkLimit(summary, {
        value: drop,
        passes: (share) => share < failIfDrop,
        worstEnd: drop.high,
        seen: `Along the same answers the accepted length of ${drafter} drops by ${intervalText(drop, (share) => percentText(share, 1))}`,
        rule: `the gate fails from ${limit} on`,
      }),
    });
  }
  if (failIfAcceptedLengthBelow !== undefined) {
    const value = findCounted(result)?.sameAnswer ?? { estimate: NaN, low: NaN, high: NaN, n: 0 };
    checks.push({
      drafter,
      name: 'failIfAcceptedLengthBelow',
      ...checkLimit(summary, {
        value,
        passes: (length) => length >= failIfAcceptedLengthBelow,
        worstEnd: value.low,
        seen: `Along the same answers the attacked accepted length of ${drafter} is ${intervalText(value, acceptedLengthText)}`,
        rule: `the gate asks for at least ${acceptedLengthText(failIfAcceptedLengthBelow)}`,
      }),
    });
  }
  return checks;
}

interface Limit {
  readonly value: Interval;
  /** Written so that a missing number does not pass. */
  readonly passes: (value: number) => boolean;
  /** The end of the interval that is nearest to failing. */
  readonly worstEnd: number;
  readonly seen: string;
  readonly rule: string;
}

function checkLimit(
  summary: DrafterSummary,
  { value, passes, worstEnd, seen, rule }: Limit,
): Pick<GateCheck, 'outcome' | 'message'> {
  const describe = (end = ''): string => `${seen}; ${rule}${end}.`;
  if (isReplay(summary))
    return { outcome: 'undecided', message: describe(`, but ${replayDoubt}, so this decides nothing`) };
  if (!passes(value.estimate)) return { outcome: 'failed', message: describe() };
  if (value.n < fewestPrompts())
    return { outcome: 'undecided', message: describe(`, but ${describeTooFew(value.n, 1)}`) };
  return passes(worstEnd)
    ? { outcome: 'passed', message: describe() }
    : {
        outcome: 'undecided',
        message: describe(', which the interval does not rule out: audit more prompts'),
      };
}
