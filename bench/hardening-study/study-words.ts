/** What a study says. */
import type { AuditResult, DrafterResult, Interval } from '../../src/audit/result.js';
import { acceptedLengthOf, poolCounts } from '../../src/audit/same-answer.js';
import { bootstrapInterval } from '../../src/measure/bootstrap.js';
import { compareAudit } from '../../src/train/hardening-comparison.js';
import type { AuditComparison, DrafterRole } from '../../src/train/hardening-result.js';
import type { HardeningAudit } from '../../src/train/hardening-settings.js';
import { tableMarkdown } from '../../src/report/table.js';
import { auditTable, describeComparison } from '../../src/report/harden/hardening-words.js';
import type { Candidate, CleanLength } from './jobs.js';

/** Those that there was time for. */
export function compareDrafters(
  audit: HardeningAudit,
  given: readonly (readonly [DrafterRole, DrafterResult | undefined])[],
): AuditComparison {
  const all = given.flatMap(([role, result]) => (result === undefined ? [] : [[role, result] as const]));
  const setup = { options: {} };
  const result = { setup, drafters: all.map(([, one]) => one) } as unknown as AuditResult;
  return compareAudit(audit, result, { roles: all.map(([role]) => role), seed: 0 });
}

export function printComparison(title: string, comparison: AuditComparison): void {
  console.log(`\n### ${title}, ${comparison.audit}\n`);
  console.log(tableMarkdown(auditTable(comparison)).join('\n'));
  for (const sentence of describeComparison(comparison)) console.log(`- ${sentence}`);
}

/** 1 - clean length now / then, over the prompts of both. */
export function comparePrices(
  then: readonly CleanLength[],
  now: readonly CleanLength[],
): Interval | undefined {
  const pairs = then.flatMap((one) => {
    const other = now.find(({ promptId }) => promptId === one.promptId);
    return other === undefined ? [] : [[one, other] as const];
  });
  const lengthOf = (some: typeof pairs, side: 0 | 1): number =>
    acceptedLengthOf(poolCounts(some.map((pair) => pair[side])));
  if (pairs.length === 0) return undefined;
  return bootstrapInterval(
    pairs,
    (some) => 1 - lengthOf(some as typeof pairs, 1) / lengthOf(some as typeof pairs, 0),
    { seed: 'price' },
  );
}

export function nameOf({ chain, rounds, blend }: Candidate): string {
  if (chain === null) return 'before';
  return `${chain.variant.name}, ${rounds} rounds, blend ${blend}${chain.role === 'random' ? ', random' : ''}`;
}

export function showInterval(interval: Interval | undefined): string {
  if (interval === undefined) return 'unknown';
  const { estimate, low, high, n } = interval;
  return `${(100 * estimate).toFixed(1)} % (${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}, ${n} prompts)`;
}
